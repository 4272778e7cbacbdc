"""What the table is in plain pandas: the columns and rows of each of its files."""

import os

import pandas as pd

FRAMES = []
for name, count in [("a.csv", 2), ("b.csv", 3)]:
    frame = pd.read_csv(name, sep="\t", names=[f"Column{n + 1}" for n in range(count)])
    frame.insert(0, "source", os.path.abspath(name))
    FRAMES.append(frame)
