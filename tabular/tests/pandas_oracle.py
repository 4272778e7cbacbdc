"""Says what pandas makes of the cases of tests/pandas.rs.

Run as `python pandas_oracle.py CASES RESULTS`: CASES is a JSON file of frames to write
and texts to read, RESULTS receives what came out, in the same order. It judges nothing;
the Rust side compares.
"""

import csv
import io
import json
import struct
import sys
from typing import Any

import numpy as np
import pandas as pd


def column(kind: str, values: list[Any]) -> Any:
    """Builds a column of a frame from its description."""
    if kind in ("float64", "float32"):
        bits, number = ("<Q", "<d") if kind == "float64" else ("<I", "<f")
        floats = [
            np.nan if v is None else struct.unpack(number, struct.pack(bits, int(v)))[0]
            for v in values
        ]
        return np.array(floats, dtype=kind)
    if kind.startswith("time"):
        unit = kind.removeprefix("time")
        times = [np.iinfo(np.int64).min if v is None else int(v) for v in values]
        return np.array(times, dtype=np.int64).view(f"M8[{unit}]")
    if kind == "bool":
        truths = [None if v is None else v == "true" for v in values]
        return np.array(truths, dtype=object if None in truths else bool)
    if kind == "category":
        return pd.Categorical(values)
    if kind == "str":
        return pd.array(values, dtype="str")
    integers = [None if v is None else int(v) for v in values]
    if None in integers:
        name = (
            kind.replace("u", "U").replace("int", "Int")
            if kind[0] == "u"
            else kind.capitalize()
        )
        return pd.array(integers, dtype=name)
    return np.array(integers, dtype=kind)


def write(case: dict[str, Any]) -> str:
    """Writes a frame as text."""
    frame = pd.DataFrame(
        {i: column(c["kind"], c["values"]) for i, c in enumerate(case["columns"])}
    )
    if case["names"] is not None:
        frame.columns = pd.Index(case["names"])
    out = io.StringIO(newline="")
    frame.to_csv(
        out,
        sep=case["separator"],
        na_rep=case["na_rep"],
        header=case["names"] is not None,
        index=False,
        lineterminator="\n",
    )
    return out.getvalue()


def shown(value: Any) -> str | None:
    """One value as text: floats by their bits, missing ones as nothing."""
    if value is None or value is pd.NA:
        return None
    if isinstance(value, float):
        return (
            None
            if value != value
            else str(struct.unpack("<Q", struct.pack("<d", value))[0])
        )
    return str(value)


def read(case: dict[str, Any]) -> dict[str, Any]:
    """Reads a text."""
    frame = pd.read_csv(
        io.BytesIO(case["text"].encode()),
        sep=case["separator"],
        header=0 if case["header"] else None,
        dtype={
            int(k) if not case["header"] else k: v for k, v in case["dtype"].items()
        },
        na_values=case["null_values"],
        keep_default_na=case["null_values"] is None,
    )
    return {
        "names": [str(name) for name in frame.columns],
        "types": [str(frame.dtypes.iloc[i]) for i in range(frame.shape[1])],
        "columns": [
            [shown(v) for v in frame.iloc[:, i].tolist()] for i in range(frame.shape[1])
        ],
    }


def quotes_carriage_return() -> bool:
    """Whether this Python's csv module quotes a field with a lone carriage return."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(["\r", ""])
    return out.getvalue().startswith('"')


def main(cases_path: str, results_path: str) -> None:
    """Answers all cases."""
    with open(cases_path, encoding="utf-8") as file:
        cases = json.load(file)
    results = {
        "quote_carriage_return": quotes_carriage_return(),
        "float32_exponent_from": 1e6 if str(np.float32(1e6)) == "1e+06" else 1e16,
        "written": [write(case) for case in cases["write"]],
        "read": [read(case) for case in cases["read"]],
    }
    with open(results_path, "w", encoding="utf-8") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
