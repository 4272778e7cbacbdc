"""What the table is in plain pandas: the columns and rows of each of its files."""

import os

import pandas as pd

FIRST = pd.read_csv("data/a.csv")
SECOND = pd.read_csv("data/deep/b.csv", names=["a", "b"])
FIRST.insert(0, "Path", os.path.abspath("data/a.csv"))
SECOND.insert(0, "Path", os.path.abspath("data/deep/b.csv"))
FRAMES = [FIRST, SECOND]
