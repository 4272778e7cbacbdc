"""The second step of a shuffle (`partition_keys` over columns of the data, spec D3): buckets become groups.

A mini-batch is all files that `shuffle_split` wrote for one bucket. The rows of each group are put together
in the order of the input, and written to `INPUT/BUCKET.rows`: text as it is, tables as streams of Arrow. What
is where is said by `INPUT/BUCKET.groups`, a JSON value a line: first how rows are read, then each group, in
the order of the first rows:

    {"readers": [{"kind": ..., "reader": ..., "columns": ..., "types": ..., "first": ...}, ...],
     "files": [["origin", name_at], ...], "absent": [...], "seen": [...]}
    {"first": [slice, row], "keys": [...], "pieces": [[reader, start, end, rows, checksum, files, more], ...]}

`types` are those of the columns of a table, `first` is the number of the first slice that is read so.
`absent` are keys that no record of the bucket's slices has, `seen` are names that they have. A group has
several pieces where files are read in different ways; each says of which files its rows are: the numbers of
the first ones, and how many more there are. Memory holds one file of a bucket at a time, and so many bytes of
groups; a group may have any size.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from azureml_user.parallel_run import folders
from azureml_user.parallel_run.errors import ScriptError

# Bytes of groups that are put together in memory.
_HELD = 96 << 20
# Files that a piece names.
_NAMED = 3
# Names of columns that a bucket gives for messages.
_SEEN = 200


class Part:
    """A file of a bucket."""

    def __init__(self, path: str) -> None:
        self._path = path
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length, head, rows = (int.from_bytes(file.read(count), "little") for count in (8, 4, 4))
            encoded = file.read(min(length, size))
            self._check(encoded, head)
            self.head = json.loads(encoded)
            self._rows_at = file.tell()
            # Until they were compared.
            self._checksum: int | None = rows
            self.size = size - self._rows_at

    def rows(self) -> bytes:
        """The rows of all groups."""
        with open(self._path, "rb") as file:
            file.seek(self._rows_at)
            rows = file.read()
        if self._checksum is not None:
            self._check(rows, self._checksum)
            self._checksum = None
        return rows

    def _check(self, read: bytes, checksum: int) -> None:
        if zlib.crc32(read) != checksum:
            raise ScriptError(
                "DataError",
                f"{self._path} is not what the step split wrote: it was damaged since, and prs resume runs "
                "that step again",
            )

    def table(self) -> Any:
        """The rows of all groups, as a table."""
        import pyarrow

        with pyarrow.ipc.open_stream(self.rows()) as reader:
            return reader.read_all()


class Piece:
    """Rows of a group that are read in one way, one behind the other."""

    __slots__ = ("reader", "rows", "size", "sources", "start")

    def __init__(self, reader: int) -> None:
        self.reader = reader
        # Of each: the part, where the rows begin in it (bytes, or rows), and how many there are.
        self.sources: list[tuple[int, int, int]] = []
        self.rows = 0
        self.start = 0
        self.size = 0

    def add(self, part: int, at: int, count: int, rows: int) -> None:
        self.sources.append((part, at, count))
        self.rows += rows
        self.size += count


class Group:
    """A group of a bucket."""

    __slots__ = ("first", "keys", "pieces")

    def __init__(self, keys: list[str], first: list[int]) -> None:
        self.keys = keys
        self.first = first
        self.pieces: list[Piece] = []

    def piece(self, reader: int) -> Piece:
        """The piece that rows with this reader are added to."""
        if not self.pieces or self.pieces[-1].reader != reader:
            self.pieces.append(Piece(reader))
        return self.pieces[-1]


class Bucket:
    """The parts of a bucket in the order of the input, and its groups in the order of their first rows."""

    def __init__(self, parts: Iterable[Part], keeps_origins: bool) -> None:
        self.parts = sorted(parts, key=lambda part: part.head["slice"])
        self.readers: list[dict[str, Any]] = []
        self.groups: list[Group] = []
        # Origins, and what of them is before the names of the files.
        self.files: list[tuple[str, int]] = []
        # By part.
        self.file_of: list[int] = []
        self.absent: list[str] | None = None
        seen: dict[str, None] = {}
        numbers: dict[tuple[str, str], int] = {}
        files: dict[tuple[str, int], int] = {}
        known: dict[tuple[str, ...], Group] = {}
        for number, part in enumerate(self.parts):
            head = part.head
            described = {name: head[name] for name in ("kind", "reader", "columns", "types")}
            same = (_line(described), head["origin"] if keeps_origins else "")
            reader = numbers.setdefault(same, len(self.readers))
            if reader == len(self.readers):
                self.readers.append({**described, "first": head["slice"]})
            of_file = (head["origin"], head["name_at"])
            file = files.setdefault(of_file, len(self.files))
            if file == len(self.files):
                self.files.append(of_file)
            self.file_of.append(file)
            absent = head["absent"]
            self.absent = absent if self.absent is None else [key for key in self.absent if key in absent]
            if self.absent and len(seen) < _SEEN:
                seen.update(dict.fromkeys(head["seen"]))
            at = 0
            is_text = head["kind"] == "text"
            for shown, compared, row, rows, size in head["groups"]:
                identity = tuple(compared)
                group = known.get(identity)
                if group is None:
                    group = known[identity] = Group(shown, [head["slice"], row])
                    self.groups.append(group)
                count = size if is_text else rows
                group.piece(reader).add(number, at, count, rows)
                at += count
            # Of a part that is not looked at again, but for its rows.
            part.head = {"kind": head["kind"]}
        self.seen = list(seen)[:_SEEN] if self.absent else []

    def files_of(self, piece: Piece) -> tuple[list[int], int]:
        """The first files that the rows of a piece are of, and how many more there are."""
        files = list(dict.fromkeys(self.file_of[part] for part, _, _ in piece.sources))
        return files[:_NAMED], len(files[_NAMED:])

    def pieces(self, kind: str) -> Iterator[Piece]:
        """The pieces of this kind, in order."""
        for group in self.groups:
            for piece in group.pieces:
                if self.readers[piece.reader]["kind"] == kind:
                    yield piece

    def write(self, path: str) -> None:
        """Writes the rows, and which groups there are, to files that begin with `path`."""
        rows_path = path + ".rows"
        with open(rows_path, "w+b", opener=folders.created) as file:
            end = self._write_text(file)
            file.seek(end)
            self._write_tables(file)
        self._write_groups(path + ".groups", rows_path)

    def _write_text(self, file: Any) -> int:
        """Writes all text; gives the byte behind it."""
        end = 0
        placed: list[list[tuple[int, int, int]]] = [[] for _ in self.parts]
        for piece in self.pieces("text"):
            piece.start = end
            for part, at, size in piece.sources:
                placed[part].append((end, at, size))
                end += size
        held = memoryview(bytearray(end)) if end <= _HELD else None
        for part, places in zip(self.parts, placed):
            if not places:
                continue
            rows = memoryview(part.rows())
            if held is not None:
                for to, at, size in places:
                    held[to : to + size] = rows[at : at + size]
            else:
                for to, at, size in places:
                    _write_at(file, rows[at : at + size], to)
        if held is not None:
            file.write(held)
            file.flush()
        return end

    def _write_tables(self, file: Any) -> None:
        for pieces in self._held_together():
            if len(pieces) == 1:
                self._write_stream(file, pieces[0])
                continue
            tables = self._tables(pieces)
            for piece in pieces:
                piece.start = file.tell()
                file.write(_stream(next(tables[piece.reader])))
                piece.size = file.tell() - piece.start

    def _held_together(self) -> Iterator[list[Piece]]:
        """Tables that are put together in memory at a time, in order; what is larger comes alone."""
        tables = [part for part in self.parts if part.head["kind"] == "arrow"]
        rows = sum(piece.rows for piece in self.pieces("arrow"))
        most = max(1, _HELD * rows // max(1, sum(part.size for part in tables)))
        together: list[Piece] = []
        held = 0
        for piece in self.pieces("arrow"):
            if together and held + piece.rows > most:
                yield together
                together, held = [], 0
            together.append(piece)
            held += piece.rows
        if together:
            yield together

    def _tables(self, pieces: list[Piece]) -> dict[int, Iterator[Any]]:
        """By reader, the tables of these pieces in order."""
        import numpy
        import pyarrow

        wanted: dict[int, list[tuple[int, int]]] = {}
        for piece in pieces:
            for part, at, count in piece.sources:
                wanted.setdefault(part, []).append((at, count))
        # By part and first row: where the rows are among those of all parts of the reader.
        places: dict[tuple[int, int], int] = {}
        taken: dict[int, list[Any]] = {}
        lengths: dict[int, int] = {}
        reader_of = {part: piece.reader for piece in pieces for part, _, _ in piece.sources}
        for part in sorted(wanted):
            reader = reader_of[part]
            for at, count in wanted[part]:
                places[part, at] = lengths.get(reader, 0)
                lengths[reader] = places[part, at] + count
            rows = _rows_of(wanted[part])
            taken.setdefault(reader, []).append(self.parts[part].table().take(pyarrow.array(rows)))
        tables = {}
        for reader, parts in taken.items():
            own = [piece for piece in pieces if piece.reader == reader]
            order = _rows_of([(places[part, at], count) for one in own for part, at, count in one.sources])
            table = pyarrow.concat_tables(parts).take(pyarrow.array(order)).combine_chunks()
            starts = numpy.cumsum([0, *(one.rows for one in own)]).tolist()
            cut = [table.slice(start, one.rows) for start, one in zip(starts, own)]
            tables[reader] = iter(cut)
        return tables

    def _write_stream(self, file: Any, piece: Piece) -> None:
        """Writes a piece of any size, one part after the other."""
        import pyarrow

        piece.start = file.tell()
        writer = None
        for part, at, count in piece.sources:
            table = self.parts[part].table()
            if writer is None:
                writer = pyarrow.ipc.new_stream(file, table.schema)
            for batch in _compact(table.slice(at, count)).to_batches():
                writer.write_batch(batch)
        if writer is not None:
            writer.close()
        piece.size = file.tell() - piece.start

    def _write_groups(self, path: str, rows_path: str) -> None:
        import prs_process

        ranges = [(piece.start, piece.start + piece.size) for group in self.groups for piece in group.pieces]
        checksums = iter(prs_process.checksums(rows_path, ranges))
        with open(path, "w", encoding="utf-8", opener=folders.created) as file:
            head = {"readers": self.readers, "files": self.files}
            file.write(_line({**head, "absent": self.absent or [], "seen": self.seen}))
            for group in self.groups:
                pieces = [
                    [
                        piece.reader,
                        piece.start,
                        piece.start + piece.size,
                        piece.rows,
                        next(checksums),
                        *self.files_of(piece),
                    ]
                    for piece in group.pieces
                ]
                file.write(_line({"first": group.first, "keys": group.keys, "pieces": pieces}))


def _rows_of(ranges: list[tuple[int, int]]) -> Any:
    """The numbers in ranges, of which each has its first and how many there are."""
    import numpy

    starts = numpy.array([start for start, _ in ranges], dtype="int64")
    counts = numpy.array([count for _, count in ranges], dtype="int64")
    before = numpy.cumsum(counts) - counts
    return numpy.repeat(starts - before, counts) + numpy.arange(int(counts.sum()))


def _compact(table: Any) -> Any:
    """The table in arrays of its own, which hold nothing else."""
    import numpy
    import pyarrow

    return table.take(pyarrow.array(numpy.arange(table.num_rows))).combine_chunks()


def _stream(table: Any) -> Any:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    return sink.getvalue()


def _write_at(file: Any, rows: memoryview, at: int) -> None:
    while rows:
        written = os.pwrite(file.fileno(), rows, at)
        rows, at = rows[written:], at + written


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


_keeps_origins: list[str]


def init() -> None:
    global _keeps_origins
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--shuffle_origins", type=json.loads, default=[])
    _keeps_origins = parser.parse_known_args(sys.argv[1:])[0].shuffle_origins


def run(paths: list[str], context: Any) -> list[Any]:
    name = context.dataset_name
    folder = os.path.join(context.output_dir, name)
    folders.make(folder)
    bucket = Bucket((Part(path) for path in paths), name in _keeps_origins)
    bucket.write(os.path.join(folder, context.partition_key_value["bucket"]))
    return [None] * len(paths)
