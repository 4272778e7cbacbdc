"""The first step of a shuffle (`partition_keys` over columns of the data, spec D3): rows go to buckets.

A mini-batch is a slice of the input, read as the job would read it: what an MLTable filters is gone, and what
it converts is converted, before keys are looked at. The rows are then written as the data has them, so that
the job reads them with the reader of their file. For each bucket that has some there is a file,
`INPUT/BUCKET/SLICE.part`:

    eight bytes: the length of the head, little-endian
    four bytes each: the CRC-32 of the head and of the rows, little-endian
    the head, JSON: how the rows are read, and the groups in the order of their first rows
    the rows, one group behind the other, in the order of the input: lines of text, or a stream of Arrow

What it writes follows from the slice alone, so each process writes the same.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import zlib
from dataclasses import dataclass, field
from typing import Any

from azureml_user.parallel_run import folders, shuffle_exact, shuffle_keys
from azureml_user.parallel_run.errors import ScriptError

SCRIPT = __name__
# Names of a slice that messages choose from, where a key is not among them.
_NAMES = 200


@dataclass
class Slice:
    """A slice as its file has it."""

    # The text of the slice and, as integers of 64 bits, where each record of it begins, and its end; or a
    # table of Arrow.
    lines: bytes | None
    starts: bytes
    table: Any
    # As the descriptor has them.
    reader: bytes
    columns: bytes
    origin: str
    name_at: int
    # The columns of the data; none where each record has its own.
    names: list[Any] | None
    # Columns of delimited text whose numbers became floats that are not exact, as the text has them.
    texts: dict[str, list[str | None]] = field(default_factory=dict)
    # Of a table of Arrow: names and types of the columns that its frame has, as `column_types` notes them.
    types: list[list[str]] = field(default_factory=list)


class Settings:
    """What the step is to do."""

    def __init__(self, arguments: list[str]) -> None:
        parser = argparse.ArgumentParser(allow_abbrev=False)
        parser.add_argument("--shuffle_keys", type=json.loads, required=True)
        parser.add_argument("--shuffle_buckets", type=int, required=True)
        known, _ = parser.parse_known_args(arguments)
        self.keys: list[str] = known.shuffle_keys
        self.buckets: int = known.shuffle_buckets


_settings: Settings
# The slice that run() gets the frame of; `frames.Frames` puts it here.
current: Slice | None = None


def init() -> None:
    global _settings
    _settings = Settings(sys.argv[1:])


def run(frame: Any, context: Any) -> list[Any]:
    global current
    raw, current = current, None
    assert raw is not None, "a frame comes with its slice"
    folder = os.path.join(context.output_dir, context.dataset_name)
    part = f"{context.minibatch_index:010d}.part"
    for bucket, head, rows in split(frame, raw, _settings.keys, _settings.buckets):
        of_bucket = os.path.join(folder, f"{bucket:04d}")
        folders.make(of_bucket)
        encoded = json.dumps({"slice": context.minibatch_index, **head}, separators=(",", ":")).encode()
        with open(os.path.join(of_bucket, part), "wb", opener=folders.created) as file:
            write_part(file, encoded, rows)
    return [None] * len(frame)


def write_part(file: Any, head: bytes, rows: Any) -> None:
    """Writes a file of a bucket."""
    file.write(len(head).to_bytes(8, "little"))
    for checked in (head, rows):
        file.write(zlib.crc32(checked).to_bytes(4, "little"))
    file.write(head)
    file.write(rows)


def split(frame: Any, raw: Slice, keys: list[str], buckets: int) -> Any:
    """The number, the head and the rows of each bucket. The index of `frame` says which row of the slice each
    of its rows is."""
    import numpy

    keys = [_column(frame, key) for key in keys]
    absent = [key for key in keys if key not in frame.columns]
    if absent and raw.names is not None:
        there = ", ".join(map(repr, [*raw.names, *(name for name in frame.columns if name not in raw.names)]))
        raise ScriptError(
            "KeyError",
            f"{raw.origin}: partition_keys names {', '.join(map(repr, absent))}, and the columns are "
            f"{there}: name some of these",
        )
    twice = next((key for key in keys if (frame.columns == key).sum() > 1), None)
    if twice is not None:
        raise ScriptError(
            "KeyError",
            f"{raw.origin}: partition_keys names {twice!r}, and several columns have this name: give them "
            "names of their own",
        )
    seen = [str(name) for name in frame.columns[:_NAMES]] if absent else []
    for key in absent:
        # A record of JSON lines may lack any name.
        frame[key] = None
    for key in keys:
        frame[key] = shuffle_exact.whole_numbers(frame[key], key, raw)
    try:
        group_of, first = shuffle_keys.codes(frame, keys)
        columns = [frame[key].iloc[first].tolist() for key in keys]
        names = [
            tuple(zip(*(shuffle_keys.encoded(key, value) for key, value in zip(keys, values))))
            for values in zip(*columns)
        ]
    except shuffle_keys.NoKey as error:
        raise ScriptError("DataError", f"{raw.origin}: {error}") from None
    positions = frame.index.to_numpy()
    bucket_of = numpy.array(
        [zlib.crc32("\n".join(compared).encode()) % buckets for _, compared in names], dtype="int64"
    )
    # Groups by their bucket, then by their first row; rows by their group, then as they come.
    order_of_groups = numpy.lexsort((numpy.arange(len(names)), bucket_of))
    rank = numpy.empty(len(names), dtype="int64")
    rank[order_of_groups] = numpy.arange(len(names))
    order = numpy.argsort(rank[group_of], kind="stable")
    counts = numpy.bincount(rank[group_of], minlength=len(names))
    ends = numpy.cumsum(counts)
    taken = positions[order]
    rows = _Text(raw, taken) if raw.lines is not None else _Table(raw, taken)
    sizes = rows.sizes(ends)
    described = [
        [*names[group], int(positions[first[group]]), int(counts[at]), int(sizes[at])]
        for at, group in enumerate(order_of_groups)
    ]
    head = {
        "kind": "text" if raw.lines is not None else "arrow",
        # Slices of a Parquet file have a reader each; what its rows are now read with is their schema.
        "reader": (raw.reader if raw.table is None else rows.schema()).hex(),
        "columns": raw.columns.hex(),
        "types": raw.types,
        "origin": raw.origin,
        "name_at": raw.name_at,
        # Keys that no record of the slice has, and names that records have.
        "absent": absent,
        "seen": seen,
    }
    limits = numpy.flatnonzero(numpy.diff(bucket_of[order_of_groups])) + 1
    for begin, end in zip([0, *limits.tolist()], [*limits.tolist(), len(names)]):
        if begin == end:
            continue
        bucket = int(bucket_of[order_of_groups[begin]])
        rows_from = int(ends[begin - 1]) if begin else 0
        yield bucket, {**head, "groups": described[begin:end]}, rows.of(rows_from, int(ends[end - 1]))


def _column(frame: Any, key: str) -> Any:
    """The column that a key names. Columns without names are told by their positions, which are numbers."""
    is_position = key.isdigit() and key not in frame.columns and int(key) in frame.columns
    return int(key) if is_position else key


class _Text:
    """Records of text, in the order of `taken`."""

    def __init__(self, raw: Slice, taken: Any) -> None:
        import numpy
        import prs_process

        lines, ends = prs_process.gather(raw.lines, raw.starts, taken.astype("uint64").tobytes())
        self._lines = memoryview(lines)
        self._ends = numpy.frombuffer(ends, dtype="uint64")

    def sizes(self, ends: Any) -> Any:
        """Bytes of the groups that end behind so many records each."""
        import numpy

        return numpy.diff(self._ends[ends - 1], prepend=numpy.uint64(0))

    def of(self, start: int, end: int) -> memoryview:
        """The records from `start` up to `end`."""
        return self._lines[int(self._ends[start - 1]) if start else 0 : int(self._ends[end - 1])]


class _Table:
    """Rows of an Arrow table, in the order of `taken`."""

    def __init__(self, raw: Slice, taken: Any) -> None:
        import pyarrow

        self._rows = plain(raw.table).take(pyarrow.array(taken))

    def schema(self) -> bytes:
        """Names and types of the columns."""
        return bytes(self._rows.schema.serialize())

    def sizes(self, ends: Any) -> Any:
        """Nothing is known before the groups are put together."""
        import numpy

        return numpy.zeros(len(ends), dtype="int64")

    def of(self, start: int, end: int) -> Any:
        """A stream of the rows from `start` up to `end`."""
        return stream(self._rows.slice(start, end - start))


def stream(table: Any) -> Any:
    """A table as a stream of Arrow, in one piece."""
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.combine_chunks().to_batches():
            writer.write_batch(batch)
    return sink.getvalue()


def plain(table: Any) -> Any:
    """The table with values in place of a dictionary's numbers: one row would bring all of the dictionary."""
    import pyarrow

    from azureml_user.parallel_run import parquet

    types = pyarrow.types
    for at, column in enumerate(table.schema):
        if types.is_dictionary(column.type):
            kind = column.type.value_type
            noted = {
                **(column.metadata or {}),
                parquet.DICTIONARY: b"ordered" if column.type.ordered else b"",
            }
            described = column.with_type(kind).with_metadata(noted)
            table = table.set_column(at, described, table.column(at).cast(kind))
    return table
