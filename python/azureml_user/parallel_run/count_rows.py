"""The step in front of a job that counts rows behind a filter (`skip` and `take` of an MLTable).

What the table does with the rows of a slice up to there is done when `run` gets it; its one row says how
many rows were left, and the checksum of the slice. So does a line of the result: the input, the rows, the
checksum.
The plan of the job reads the lines in the order of its slices.
"""

from __future__ import annotations

from typing import Any


def run(frame: Any, context: Any) -> list[str]:
    [(rows, checksum)] = frame.itertuples(index=False, name=None)
    return [f"{context.dataset_name} {rows} {checksum}"]
