"""Adds to the wheel what cargo builds: the programs and the extension, without their symbols.

They are built in release, or taken from the folder that `PRS_WHEEL_PROGRAMS` names. The extension keeps to
Python's stable interface since 3.9, and the programs to none, so one wheel serves every CPython from 3.9 on.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ["prs", "prs-producer", "prs-worker"]
EXTENSION = "libprs_process.so"
# The name under which Python imports the extension, and by which the programs find it.
MODULE = "prs_process.abi3.so"


class Programs(BuildHookInterface):
    """The build hook that pyproject.toml names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        programs = Path(os.environ.get("PRS_WHEEL_PROGRAMS") or self._build())
        self._stripped = tempfile.TemporaryDirectory(prefix="prs-wheel-")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp39-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["force_include"][self._strip(programs / EXTENSION)] = MODULE
        for program in PROGRAMS:
            build_data["shared_scripts"][self._strip(programs / program)] = program

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._stripped.cleanup()

    def _build(self) -> Path:
        """Builds in release; returns the folder that has it all."""
        packages = ["-p", "prs-producer", "-p", "prs-python"]
        subprocess.run(["cargo", "build", "--release", "--locked", *packages], cwd=self.root, check=True)
        return Path(self.root, os.environ.get("CARGO_TARGET_DIR", "target"), "release")

    def _strip(self, built: Path) -> str:
        stripped = Path(self._stripped.name, built.name)
        subprocess.run(["strip", "-o", stripped, built], check=True)
        return str(stripped)
