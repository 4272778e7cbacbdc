"""Has pandas, pyarrow, Polars, DuckDB and fastparquet write the same frames, each in its dialects and
versions of formats, and compares what prs makes of each file, cut into small mini-batches, with what pandas
makes of the whole file.

`corpus.py PRS FOLDER --seed N` compares all files that a seed gives; with `--rows N` it also reads so many
rows of random CSV with three sizes of mini-batches, which have to give one set of bytes. It ends with 1 where
something differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import fastparquet
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "code"))
from entry import described  # noqa: E402

ROWS = 400
TEXTS = [
    "",
    "a",
    "NA",
    "ä",
    'say "hi"',
    "x,y",
    "two\nlines",
    "c\r\nd",
    "tab\there",
    " lead",
    "1",
    "true",
    "semi;colon",
    "日本",
]

# A column, by its number of rows.
Column = Callable[[random.Random, int], list[Any]]


def missing(share: float, column: Column) -> Column:
    """The same column with some values missing, often none before a late one."""

    def made(rng: random.Random, rows: int) -> list[Any]:
        late = rng.random() < 0.4
        values = column(rng, rows)
        return [
            None if (row == rows - 7 if late else rng.random() < share) else value
            for row, value in enumerate(values)
        ]

    return made


def of(value: Callable[[random.Random], Any]) -> Column:
    return lambda rng, rows: [value(rng) for _ in range(rows)]


INTS = of(lambda rng: rng.randint(-(2**62), 2**62) >> rng.randrange(62))
FLOATS = of(lambda rng: rng.choice([rng.uniform(-1e6, 1e6), 0.1, 1e300, -2.5e-9, float(rng.randrange(100))]))
BOOLS = of(lambda rng: rng.random() < 0.5)
WORDS = of(lambda rng: rng.choice(TEXTS))
KINDS: dict[str, Column] = {
    "int": INTS,
    "int_or_missing": missing(0.1, of(lambda rng: rng.randrange(-(2**40), 2**40))),
    "float": FLOATS,
    "float_or_missing": missing(0.1, FLOATS),
    "flag": BOOLS,
    "flag_or_missing": missing(0.1, BOOLS),
    "text": WORDS,
    "text_or_missing": missing(0.1, WORDS),
    "code": of(lambda rng: f"{rng.randrange(1000):05}"),
    "late_text": lambda rng, rows: [str(row) if row != rows - 3 else "late" for row in range(rows)],
    "late_float": lambda rng, rows: [float(row) if row != rows - 5 else 0.5 for row in range(rows)],
}
# What delimited text cannot hold.
NESTED: dict[str, Column] = {
    "words": missing(0.1, of(lambda rng: rng.sample(TEXTS, k=rng.randrange(3)))),
    "numbers": missing(0.1, of(lambda rng: [rng.choice([1, 2, 3]) for _ in range(rng.randrange(3))])),
    "lists": of(lambda rng: [[rng.choice([True, False, True, None])] for _ in range(rng.randrange(2))]),
    "place": of(lambda rng: {"city": rng.choice(TEXTS), "far": rng.choice([0.5, None, 2.0])}),
}
# What only formats with types can hold.
TYPED: dict[str, Column] = {
    "day": missing(0.1, of(lambda rng: pd.Timestamp("2026-01-01") + pd.Timedelta(hours=rng.randrange(9000)))),
    "small": of(lambda rng: np.int16(rng.randrange(-100, 100))),
}


def frame(seed: int, kinds: dict[str, Column]) -> Any:
    """A frame of random columns, some of them of one kind."""
    rng = random.Random(seed)
    chosen = rng.sample(sorted(kinds), k=rng.randint(3, len(kinds)))
    columns = {name: kinds[name](rng, ROWS) for name in chosen}
    arrays = {name: pa.array(values) for name, values in columns.items()}
    return pa.table({"row": pa.array(range(ROWS)), **arrays})


# A file of the corpus: its name, its keys in the job file, and what pandas makes of it.
Case = tuple[str, dict[str, Any], Callable[[Path], Any]]


def copy(table: Any, path: Path, options: str) -> None:
    """Has DuckDB write a table."""
    connection = duckdb.connect()
    connection.register("t", table)
    connection.execute(f"copy t to '{path}' ({options})")


def csv(path: Path, **options: Any) -> Any:
    return pd.read_csv(path, low_memory=False, **options)


def lines(path: Path) -> Any:
    text = path.read_text(encoding="utf-8-sig")
    records = (
        json.loads(text)
        if text.lstrip().startswith("[")
        else map(json.loads, filter(str.strip, text.split("\n")))
    )
    return pd.DataFrame(records)


def delimited_files(folder: Path, table: Any, rng: random.Random) -> Iterator[Case]:
    """Delimited text of every writer."""
    data = table.to_pandas(types_mapper=None)
    for separator in [",", ";", "\t", "|"]:
        for writer in ["pandas", "quoted", "polars", "duckdb", "arrow"]:
            name = f"{writer}-{ord(separator)}.csv"
            path = folder / name
            if writer == "pandas":
                data.to_csv(path, sep=separator, index=False, lineterminator=rng.choice(["\n", "\r\n"]))
            elif writer == "quoted":
                data.to_csv(path, sep=separator, index=False, quoting=1, encoding="utf-8-sig")
            elif writer == "polars":
                style = rng.choice(["necessary", "always", "non_numeric"])
                pl.from_arrow(table).write_csv(path, separator=separator, quote_style=style)  # type: ignore[arg-type,union-attr]
            elif writer == "duckdb":
                copy(table, path, f"format csv, header, delimiter '{separator}'")
            else:
                options = pyarrow.csv.WriteOptions(delimiter=separator)
                pyarrow.csv.write_csv(table, path, options)
            keys = {"delimiter": separator} if separator != "," else {}
            yield name, keys, lambda path, sep=separator: csv(path, sep=sep)
    for suffix in [".gz", ".bz2", ".xz", ".zip", ".zst"]:
        name = f"packed.csv{suffix}"
        data.to_csv(folder / name, index=False)
        yield name, {}, csv
    for encoding, key in [
        ("utf-16", None),
        ("utf-32", None),
        ("latin-1", "latin1"),
        ("cp1252", "windows1252"),
    ]:
        name = f"{encoding}.csv"
        (folder / name).write_bytes(data.to_csv(index=False).encode(encoding, errors="replace"))
        yield (
            name,
            {"encoding": key} if key else {},
            lambda path, encoding=encoding: csv(path, encoding=encoding),
        )
    texts = rng.sample(["", "NA", "-", "0", "1", "true", "a"], k=3)
    data.to_csv(folder / "nulls.csv", index=False)
    yield "nulls.csv", {"null_values": texts}, lambda path: csv(path, na_values=texts, keep_default_na=False)
    yield "added.csv", {"add_null_values": texts}, lambda path: csv(path, na_values=texts)
    data.to_csv(folder / "added.csv", index=False)


def json_files(folder: Path, table: Any, rng: random.Random) -> Iterator[Case]:
    """JSON of every writer."""
    data = table.to_pandas()
    data.to_json(folder / "pandas.jsonl", orient="records", lines=True, force_ascii=rng.random() < 0.5)
    data.to_json(folder / "array.json", orient="records", indent=rng.choice([None, 1]))
    pl.from_arrow(table).write_ndjson(folder / "polars.ndjson")  # type: ignore[union-attr]
    copy(table, folder / "duckdb.json", "format json")
    copy(table, folder / "duckdb-array.json", "format json, array true")
    records = [
        {name: value for name, value in row.items() if value is not None or rng.random() < 0.5}
        for row in table.to_pylist()
    ]
    (folder / "sparse.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    for name in [
        "pandas.jsonl",
        "array.json",
        "polars.ndjson",
        "duckdb.json",
        "duckdb-array.json",
        "sparse.jsonl",
    ]:
        yield name, {}, lines


def parquet_files(folder: Path, table: Any, rng: random.Random) -> Iterator[Case]:
    """Parquet of every writer, in its versions."""
    data = table.to_pandas()
    size = rng.choice([7, 50, 133])
    names = []

    def path(name: str) -> Path:
        names.append(name)
        return folder / name

    for version in ["1.0", "2.4", "2.6"]:
        for pages in ["1.0", "2.0"]:
            pq.write_table(
                table,
                path(f"arrow-{version}-{pages}.parquet"),
                row_group_size=size,
                version=version,
                data_page_version=pages,
                compression=rng.choice(["none", "snappy", "gzip", "zstd", "brotli", "lz4"]),
                use_dictionary=rng.random() < 0.5,
                write_statistics=rng.random() < 0.7,
                store_schema=rng.random() < 0.5,
            )
    data.to_parquet(path("pandas.parquet"), row_group_size=size)
    data.set_index("row").to_parquet(path("index.parquet"), row_group_size=size)
    flat = data[[name for name in data if name not in NESTED]]
    flat.astype({name: "category" for name in flat if flat[name].dtype.name in ("str", "object")}).to_parquet(
        path("category.parquet"), row_group_size=size
    )
    pl.from_arrow(table).write_parquet(path("polars.parquet"), row_group_size=size)  # type: ignore[union-attr]
    copy(table, path("duckdb.parquet"), "format parquet, row_group_size 2048")
    fastparquet.write(str(path("fast.parquet")), flat, row_group_offsets=size)
    for name in names:
        yield name, {}, pd.read_parquet


def submit(prs: Path, folder: Path, job: dict[str, Any]) -> bytes:
    """Runs the job and returns its result."""
    settings = {
        "name": "corpus",
        "entry_script": "entry.py",
        "source_directory": str(HERE / "code"),
        "environment": sys.executable,
        "append_row_file_name": "rows",
        **job,
    }
    (folder / "job.yml").write_text(json.dumps(settings))
    ended = subprocess.run(
        [prs, "submit", "job.yml", "-o", "json"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    if ended.returncode != 0:
        sys.exit(f"{folder}: prs submit ended with {ended.returncode}\n{ended.stderr.decode()[-4000:]}")
    result = json.loads(ended.stdout)
    return Path(result["output"]["uri"], "rows").read_bytes()


def compare(prs: Path, folder: Path, seed: int) -> int:
    """Compares the files of a seed; how many differ."""
    inputs: list[dict[str, Any]] = []
    expected: dict[str, list[str]] = {}
    rng = random.Random(seed)
    nested = KINDS | NESTED
    for make, kinds in [(delimited_files, KINDS), (json_files, nested), (parquet_files, nested | TYPED)]:
        table = frame(rng.randrange(2**32), kinds)
        for name, keys, read in list(make(folder, table, rng)):
            called = "".join(letter if letter.isalnum() else "_" for letter in name)
            called = f"of_{called}"
            inputs.append({"name": called, "type": "tabular", "path": name, **keys})
            expected[called] = described(called, read(folder / name))
    size = rng.choice(["500", "1kb", "3kb", "10kb"])
    output = submit(prs, folder, {"mini_batch_size": size, "inputs": inputs, "output_format": "json_lines"})
    found: dict[str, list[str]] = {called: [] for called in expected}
    for line in output.decode().splitlines():
        row = json.loads(line)
        found[row.split(" | ", 1)[0]].append(row)
    wrong = 0
    for called, rows in expected.items():
        if found[called] == rows:
            continue
        wrong += 1
        print(f"seed {seed}, {size}: {called} has {len(found[called])} rows where pandas has {len(rows)}")
        for number, (ours, theirs) in enumerate(zip(found[called], rows)):
            if ours != theirs:
                print(f"  row {number}\n    prs    {ours}\n    pandas {theirs}")
                break
    print(f"seed {seed}, {size}: {len(expected)} files, {wrong} differ")
    return wrong


def many_rows(prs: Path, folder: Path, rows: int, seed: int) -> int:
    """Reads so many rows with three sizes of mini-batches; 1 where the bytes of the results differ."""
    rng = np.random.default_rng(seed)
    with open(folder / "many.csv", "w") as file:
        for start in range(0, rows, 1_000_000):
            count = min(1_000_000, rows - start)
            numbers = np.arange(start, start + count)
            text = rng.choice(np.array(["a", "b,c", 'd"e', "", "NA", "f\ng"], dtype=object), count)
            data = pd.DataFrame(
                {"id": numbers, "text": text, "half": numbers / 2, "flag": rng.random(count) < 0.5}
            )
            # What decides on a type comes late, once in the file.
            data["late"] = numbers.astype(object)
            data["void"] = np.where(rng.random(count) < 1e-6, np.nan, 7.0)
            if start + count == rows:
                data.loc[count - 2, "late"] = "late"
            data.to_csv(file, index=False, header=start == 0)
    sums = set()
    for size in ["1mb", "10mb", "64mb"]:
        job = {
            "mini_batch_size": size,
            "entry_script": "same.py",
            "output_format": "csv",
            "inputs": [{"name": "many", "type": "tabular", "path": "many.csv"}],
        }
        sums.add(hashlib.sha256(submit(prs, folder, job)).hexdigest())
        print(f"{rows} rows, {size}: {sorted(sums)[0][:16]}")
    return int(len(sums) > 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("prs", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=0)
    asked = parser.parse_args()
    wrong = 0
    for seed in range(asked.seed, asked.seed + asked.seeds):
        folder = asked.folder.resolve() / f"seed-{seed}"
        folder.mkdir(parents=True)
        wrong += compare(asked.prs.resolve(), folder, seed)
    if asked.rows:
        folder = asked.folder.resolve() / "many"
        folder.mkdir(parents=True)
        wrong += many_rows(asked.prs.resolve(), folder, asked.rows, asked.seed)
    sys.exit(int(wrong > 0))


if __name__ == "__main__":
    main()
