"""Folders and files of a process, at paths where a script, or a neighbour, may have put links meanwhile.

None is followed below what the agent holds open. Without the extension, as where a script is imported by
hand, nobody else is there.
"""

from __future__ import annotations

import os

_HELD = "PRS_PROCESS_HELD"

try:
    import prs_process
except ImportError:

    def make(path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def appended(path: str, flags: int) -> int:
        return os.open(path, flags, 0o666)

    created = appended

    def write_whole(path: str, content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content)

    def enter(path: str) -> None:
        os.chdir(path)

    def hold() -> None:
        pass
else:

    def make(path: str) -> None:
        """Makes a folder, and those above it that are missing."""
        prs_process.make_folders(path)

    def appended(path: str, flags: int) -> int:
        """Opens a file to append to it: the `opener` of `open()`."""
        return prs_process.append_to(path)

    def created(path: str, flags: int) -> int:
        """Makes a new file: the `opener` of `open()`."""
        return prs_process.create(path)

    def write_whole(path: str, content: bytes) -> None:
        """Gives a file its content, all of it at once."""
        prs_process.write_whole(path, content)

    def enter(path: str) -> None:
        """Makes a folder the present one."""
        folder = prs_process.open_folder(path)
        try:
            os.chdir(folder)
        finally:
            os.close(folder)

    def hold() -> None:
        """Takes over the folders that the agent holds open."""
        for held in filter(None, os.environ.pop(_HELD, "").split("//")):
            number, _, path = held.partition(":")
            prs_process.hold(int(number), path)
