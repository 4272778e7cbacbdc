"""What the table is in plain pandas: the columns and rows of each of its files."""

import pandas as pd

FRAME = pd.read_csv("a.csv", dtype={"zip": str})
FRAME["id"] = pd.array([9007199254740993, None, 9223372036854775807], dtype="Int64")
FRAME["count"] = FRAME["count"].astype("Int64")
FRAMES = [FRAME]
