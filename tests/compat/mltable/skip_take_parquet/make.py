"""Writes the data."""

import pandas as pd

for number, name in enumerate(["a.parquet", "b"]):
    rows = range(number * 100, number * 100 + 50)
    frame = pd.DataFrame(
        {
            "id": rows,
            "name": [f"n{row}" if row % 7 else None for row in rows],
            "when": pd.to_datetime([row * 10**9 for row in rows]),
            "tags": [[str(row)] for row in rows],
        }
    )
    frame.to_parquet(f"{name}", row_group_size=8)
