"""A mini-batch of a job in a test: what `prs try --pytest` prints is made of this.

The data is read as in a process of a job, by the same code, and `run()` is called in the test's own process,
so that any debugger and any assertion serves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from azureml_user.parallel_run import context, frames, results, script, tables
from azureml_user.parallel_run.entry_script import EntryScript

# Where the bytes of a slice are put; the descriptors that are printed name it.
_SLICE = "slice"


class Job:
    """An entry script as a process of its job has it: imported, with its arguments, after `init()`.

    `inputs` are name, kind and path of each input; what the script writes goes below `folder`.
    """

    def __init__(
        self,
        source_directory: str,
        entry_script: str,
        *,
        folder: Path,
        inputs: Sequence[tuple[str, str, str]],
        arguments: Sequence[str] = (),
    ) -> None:
        output = folder / "output"
        EntryScript()._configure(
            agent_name="process000",
            node_id=0,
            logging_level="INFO",
            log_dir=str(folder / "logs"),
            working_dir=str(folder / "working"),
            output_dir=str(output),
            has_terminal=True,
        )
        sys.argv = [os.path.join(source_directory, entry_script), "--output", str(output), *arguments]
        self._inputs = [context.Dataset(name, kind, path) for name, kind, path in inputs]
        self._script = script.load(source_directory, entry_script)
        if self._script.init is not None:
            self._script.init()

    def run(self, mini_batch: Any, minibatch_index: int, input: int = 0, items: Sequence[str] = ()) -> Any:
        """What `run()` returns for `mini_batch`, whose items have these names in its context."""
        if not self._script.takes_context:
            return self._script.run(mini_batch)
        name = f"mb-{minibatch_index:010}"
        about = context.MiniBatchContext(minibatch_index, name, 0, self._inputs[input], list(items))
        return self._script.run(mini_batch, about)


def files(contents: Mapping[str, str | bytes], folder: Path) -> list[str]:
    """Files below `folder` with these contents, by their paths: a mini-batch of files."""
    paths = []
    for name, content in contents.items():
        path = folder / "inputs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_bytes(content))
        paths.append(str(path))
    return paths


def rows(descriptor: str, content: str | bytes, start: int, folder: Path) -> Any:
    """The DataFrame of a slice of a table, from its bytes, which begin at `start` of their file, and its
    descriptor in hexadecimal."""
    import prs_process

    with open(folder / _SLICE, "wb") as file:
        file.seek(start)
        file.write(_bytes(content))
    return prs_process.Slices(frames.Frames(), str(folder)).read(bytes.fromhex(descriptor))


def count(result: Any) -> int:
    """How many elements `run()` returned; refuses what it may not return."""
    elements = results.Results(tables.Tables({"header": False})).elements(result)
    return len(result) if elements is None else sum(1 for _ in elements)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
