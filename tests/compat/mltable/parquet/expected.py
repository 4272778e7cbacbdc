"""What the table is in plain pandas: the columns and rows of each of its files."""

import os

import pandas as pd

FRAMES = []
for name in ("a.parquet", "b"):
    frame = pd.read_parquet(name)
    frame.insert(0, "Path", os.path.abspath(name))
    FRAMES.append(frame)
