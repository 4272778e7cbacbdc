"""Puts what is there into half of the paths that are asked for: made-up names lead to refusals alone.

`PRS_TEST_KNOWN` names a file with the values, by the names of the parameters. What would take something away
is asked of made-up names only, so that the rest has something to look at.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import HookContext

KNOWN: dict[str, list[str]] = json.loads(Path(os.environ["PRS_TEST_KNOWN"]).read_text())


def known(name: str, path: str) -> list[str]:
    """The values of a parameter of this path; of `path` those of the folder before it."""
    of = path.rsplit("/{path}", 1)[0].rsplit("/", 1)[-1] if name == "path" else name
    return KNOWN.get(of, [])


@schemathesis.hook
def map_path_parameters(context: HookContext, path_parameters: dict[str, Any]) -> dict[str, Any]:
    operation = context.operation
    if operation is None or not path_parameters:
        return path_parameters
    takes_away = operation.method.lower() == "delete" or operation.path.endswith(("/cancel", "/drain"))
    # The same request is made of the same values each time.
    chance = zlib.crc32(json.dumps(path_parameters, sort_keys=True, default=str).encode())
    if takes_away or chance % 2:
        return path_parameters
    found = {name: known(name, operation.path) for name in path_parameters}
    return {
        name: values[chance // 2 % len(values)] if (values := found[name]) else path_parameters[name]
        for name in path_parameters
    }


@schemathesis.hook
def filter_failure(context: HookContext, failure: Any, case: Any, response: Any) -> bool:
    """Which failures count: an address that showed five wrong tokens within a minute is sent away."""
    return not ("invalid authentication" in failure.title and "429 Too Many Requests" in failure.message)
