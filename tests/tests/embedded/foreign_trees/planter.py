"""Puts links, mounts, special files and files of others in the place of what prs has.

It touches nothing that they lead to. Every step goes by descriptor and name: other planters are at work
meanwhile, and what one of them put somewhere must not lead another one to the canary tree.
"""

import ctypes
import json
import os
import random
import socket
import stat
from pathlib import Path

CANARY = Path(os.environ["PRS_TEST_CANARY"])
ROOTS = [Path(root) for root in os.environ["PRS_TEST_ROOTS"].split(":")]
ASIDE = os.environ["PRS_TEST_ASIDE"]
PLANTED = os.environ["PRS_TEST_PLANTED"]

# Without these a run is none, and nothing more is done with it.
VITAL = ("job.json", ".lock")

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
ANOTHER = 12345
BIND = 4096


def entries(folder: Path) -> list[Path]:
    """All that is in a folder that nobody changes, and the folder."""
    found = [folder]
    for above, folders, files in os.walk(folder):
        found += [Path(above) / name for name in folders + files]
    return found


FORBIDDEN = {(seen.st_dev, seen.st_ino) for seen in (path.lstat() for path in entries(CANARY))}


def is_canary(descriptor: int) -> bool:
    seen = os.fstat(descriptor)
    return (seen.st_dev, seen.st_ino) in FORBIDDEN


class Planter:
    """Plants one thing after the other, as its seed says."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.number = 0
        self.name = seed.replace("/", "-")

    def plant(self) -> None:
        """Puts something somewhere below the roots; nothing where what was chosen is gone by then."""
        root = self.random.choice(ROOTS)
        kind = self.random.choice([*KINDS, *OFTEN])
        depth = self.random.randrange(1, 7)
        try:
            folder, path = os.open(root, FOLDER), root
        except OSError:
            return
        try:
            folder, path, name = self.descend(folder, path, depth, kind in OF_FOLDERS)
            if name:
                KINDS[kind](self, folder, name)
                with open(PLANTED, "a") as planted:
                    planted.write(json.dumps([kind, str(path / name)]) + "\n")
        except OSError:
            pass
        finally:
            os.close(folder)

    def descend(self, folder: int, path: Path, depth: int, wants_folder: bool) -> tuple[int, Path, str]:
        """Goes down to the folder of what is chosen."""
        name = ""
        while not is_canary(folder):
            names = sorted(os.listdir(folder))
            if not names:
                break
            if self.random.random() < 0.9:
                names = [name for name in names if name not in VITAL] or names
            if wants_folder:
                folders = [name for name in names if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode)]
                names = folders or names
            name = self.random.choice(names)
            depth -= 1
            is_folder = stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode)
            if not depth or not is_folder:
                return folder, path, name
            below = os.open(name, FOLDER, dir_fd=folder)
            if is_canary(below):
                os.close(below)
                break
            os.close(folder)
            folder, path = below, path / name
        return folder, path, ""

    def clear(self, folder: int, name: str) -> None:
        """Takes away what has the name."""
        self.number += 1
        aside = os.open(ASIDE, FOLDER)
        try:
            os.rename(name, f"{self.name}-{self.number}", src_dir_fd=folder, dst_dir_fd=aside)
        finally:
            os.close(aside)

    def of_canary(self, wanted: str) -> str:
        found = [path for path in entries(CANARY) if not path.is_symlink()]
        found = [path for path in found if path.is_dir() == (wanted == "folder")]
        return str(self.random.choice(sorted(found)))

    def link(self, folder: int, name: str) -> None:
        self.clear(folder, name)
        os.symlink(self.of_canary("folder"), name, dir_fd=folder)

    def file_link(self, folder: int, name: str) -> None:
        self.clear(folder, name)
        os.symlink(self.of_canary("file"), name, dir_fd=folder)

    def new_link(self, folder: int, name: str) -> None:
        """To what is not there: who opens it to write would make it."""
        self.clear(folder, name)
        os.symlink(CANARY / "new", name, dir_fd=folder)

    def hard_link(self, folder: int, name: str) -> None:
        self.clear(folder, name)
        os.link(self.of_canary("file"), name, dst_dir_fd=folder, follow_symlinks=False)

    def hard_link_beside(self, folder: int, name: str) -> None:
        os.link(self.of_canary("file"), f"{name}-too", dst_dir_fd=folder, follow_symlinks=False)

    def link_beside(self, folder: int, name: str) -> None:
        os.symlink(self.of_canary("folder"), f"{name}-also", dir_fd=folder)

    def pipe(self, folder: int, name: str) -> None:
        self.clear(folder, name)
        os.mkfifo(name, dir_fd=folder)

    def socket(self, folder: int, name: str) -> None:
        self.clear(folder, name)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{folder}/{name}")

    def gone(self, folder: int, name: str) -> None:
        self.clear(folder, name)

    def empty_folder(self, folder: int, name: str) -> None:
        self.clear(folder, name)
        os.mkdir(name, dir_fd=folder)

    def empty_file(self, folder: int, name: str) -> None:
        self.clear(folder, name)
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=folder))

    def closed(self, folder: int, name: str) -> None:
        self.change(folder, name, lambda path: os.chmod(path, 0))

    def owner(self, folder: int, name: str) -> None:
        self.change(folder, name, lambda path: os.chown(path, ANOTHER, ANOTHER))

    def change(self, folder: int, name: str, how) -> None:
        opened = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
        try:
            if not is_canary(opened) and not stat.S_ISLNK(os.fstat(opened).st_mode):
                how(f"/proc/self/fd/{opened}")
        finally:
            os.close(opened)

    def mount(self, folder: int, name: str) -> None:
        self.clear(folder, name)
        os.mkdir(name, dir_fd=folder)
        self.bind(self.of_canary("folder"), f"/proc/self/fd/{folder}/{name}")

    def file_mount(self, folder: int, name: str) -> None:
        self.empty_file(folder, name)
        self.bind(self.of_canary("file"), f"/proc/self/fd/{folder}/{name}")

    def bind(self, source: str, target: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(source.encode(), target.encode(), None, BIND, None):
            raise OSError(ctypes.get_errno(), "cannot mount")


KINDS = {
    "link": Planter.link,
    "file-link": Planter.file_link,
    "new-link": Planter.new_link,
    "hard-link": Planter.hard_link,
    "hard-link-beside": Planter.hard_link_beside,
    "link-beside": Planter.link_beside,
    "pipe": Planter.pipe,
    "socket": Planter.socket,
    "gone": Planter.gone,
    "empty-folder": Planter.empty_folder,
    "empty-file": Planter.empty_file,
    "closed": Planter.closed,
    "owner": Planter.owner,
    "mount": Planter.mount,
    "file-mount": Planter.file_mount,
}
# What prs would go through, were it to follow it; best in the place of a folder.
OF_FOLDERS = ("link", "mount")
OFTEN = (*OF_FOLDERS, *OF_FOLDERS, "hard-link", "new-link")
