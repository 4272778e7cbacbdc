"""What the table is in plain pandas: the columns and rows of each of its files."""

import pandas as pd

NAMES = ["id", "name", "score", "when"]
FIRST = pd.read_csv("a.csv").iloc[23:]
SECOND = pd.read_csv("b.csv", header=None, names=NAMES)
THIRD = pd.read_csv("a.csv", header=None, names=NAMES).iloc[: 60 - 30 - len(SECOND)]
FRAMES = [FIRST, SECOND, THIRD]
