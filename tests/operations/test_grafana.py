"""What Grafana's own types say of the dashboard.

Needs `PRS_TEST_GRAFANA`, the program that ops/grafana/install-check builds.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_dashboard import ROOT

DASHBOARD: dict[str, Any] = json.loads((ROOT / "ops/grafana/prs.json").read_text())
CURVES = next(each for each in DASHBOARD["panels"] if each["type"] == "timeseries")


def check(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([os.environ["PRS_TEST_GRAFANA"], path], capture_output=True, text=True)


def test_it_reads_every_picture() -> None:
    pictures = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
    done = check(ROOT / "ops/grafana/prs.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{len(pictures)}\n", "")


@pytest.mark.parametrize(
    "within",
    [
        DASHBOARD,
        CURVES,
        CURVES["options"],
        CURVES["targets"][0],
        CURVES["fieldConfig"]["defaults"]["custom"],
    ],
)
def test_it_takes_no_key_that_it_does_not_know(within: dict[str, Any], tmp_path: Path) -> None:
    within["colour"] = "red"
    try:
        (tmp_path / "wrong.json").write_text(json.dumps(DASHBOARD))
    finally:
        del within["colour"]
    done = check(tmp_path / "wrong.json")
    assert done.returncode == 1
    assert "unexpected field 'colour'" in done.stderr
