"""Files of this machine on their way: those at a path, which may have a pattern, and an archive of them."""

from __future__ import annotations

import contextlib
import fnmatch
import gzip
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from prs.errors import UsageError
from prs.server.connection import pieces_of

_PATTERN = set("*?[{")


# A file of this size, bytes, is sent by itself; smaller ones go in an archive.
LARGE = 1 << 20


class Archive:
    """A tar.gz in a temporary file, which goes with it. Of the same files it is the same."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="prs-code-")  # noqa: SIM115

    def write(self, entries: Mapping[str, Path], folders: Sequence[str] = ()) -> Archive:
        """Packs files by their names in the archive; `folders` are there even where they are empty."""
        packed = gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=self._file, mtime=0)
        with packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name in folders:
                about = tarfile.TarInfo(name)
                about.type, about.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(about)
            for name, path in entries.items():
                with _readable(path) as file:
                    found = os.fstat(file.fileno())
                    about = tarfile.TarInfo(name)
                    about.size = found.st_size
                    about.mode = 0o755 if found.st_mode & 0o111 else 0o644
                    try:
                        tar.addfile(about, file)
                    except OSError as error:
                        raise UsageError(f"{path} cannot be packed: {error.strerror or error}") from None
        self._file.flush()
        return self

    @property
    def size(self) -> int:
        """Bytes."""
        return os.fstat(self._file.fileno()).st_size

    def pieces(self) -> Iterator[bytes]:
        """Its bytes, from the beginning."""
        self._file.seek(0)
        return pieces_of(self._file)

    def close(self) -> None:
        """Removes it."""
        self._file.close()


@dataclass
class Bundle:
    """Files of one folder: small ones in an archive, each large one by itself, by its path in the folder."""

    archive: Archive | None
    files: dict[str, Path]

    @classmethod
    def of(cls, entries: Mapping[str, Path], folders: Sequence[str] = ()) -> Bundle:
        """Files by their paths in it; `folders` are there even where they are empty. What may be run keeps
        that, in the archive."""
        large = {name: path for name, path in entries.items() if _is_large(path)}
        small = {name: path for name, path in entries.items() if name not in large}
        return cls(Archive().write(small, folders) if small or folders else None, large)

    @property
    def size(self) -> int:
        """Bytes."""
        return (self.archive.size if self.archive else 0) + sum(map(size_of, self.files.values()))

    def close(self) -> None:
        """Removes the archive."""
        if self.archive is not None:
            self.archive.close()


def _is_large(path: Path) -> bool:
    try:
        about = path.stat()
    except OSError:
        return False
    return about.st_size >= LARGE and not about.st_mode & 0o111


def data_at(place: Path) -> tuple[Path, Iterator[tuple[str, Path]]]:
    """The file or folder of data at a path, and its files by their paths in it. Of a path with a pattern it
    is the folder before that, with all that may fit."""
    if place.exists() or not _PATTERN & set(str(place)):
        return place, _below(place, "")
    at = next(number for number, part in enumerate(place.parts) if _PATTERN & set(part))
    return Path(*place.parts[:at]), _below(Path(*place.parts[:at]), "/".join(place.parts[at:]))


def _below(place: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    if place.is_file():
        yield "", place
    elif place.is_dir():
        for path in _files_in(place, frozenset([os.path.realpath(place)])):
            below = path.relative_to(place).as_posix()
            if not pattern or _may_fit(below, pattern):
                yield below, path


def is_exact(pattern: str) -> bool:
    """Whether `_may_fit` decides alone which paths fit."""
    return "**" not in pattern and not set("[{\\") & set(pattern)


def _may_fit(below: str, pattern: str) -> bool:
    """Whether a path may fit a pattern: the server decides, this leaves out what surely does not."""
    parts, wanted = below.split("/"), pattern.split("/")
    for at, want in enumerate(wanted):
        if not is_exact(want):
            return True
        if at >= len(parts):
            return False
        if not fnmatch.fnmatchcase(parts[at], want):
            return False
    return True


def _files_in(folder: Path, above: frozenset[str]) -> Iterator[Path]:
    """All files below a folder; links count as what they point to."""
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if path.is_dir():
            real = os.path.realpath(path)
            if real not in above:
                yield from _files_in(path, above | {real})
        elif path.is_file():
            yield path


def exactly(path: Path, size: int) -> Iterator[bytes]:
    """The bytes of a file that is not to change while it is sent."""
    sent = 0
    with open(path, "rb") as file:
        for piece in pieces_of(file):
            sent += len(piece)
            if sent > size:
                break
            yield piece
    if sent != size:
        raise UsageError(f"{path} was changed while it was sent: hand the job in again")


def size_of(path: Path) -> int:
    """Bytes of a file; none where it cannot be looked at, which is told when it is packed."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[IO[bytes]]:
    try:
        if not path.is_file():
            what = "the link leads nowhere" if path.is_symlink() and not path.exists() else "it is no file"
            raise UsageError(f"{path} cannot go along with the job: {what}")
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    with file:
        yield file
