"""What the table is in plain pandas: the columns and rows of each of its files."""

import pandas as pd

NAMES = ["5.1", "3.5", "Column3", "5.1_1"]
FRAMES = [pd.read_csv(name, names=NAMES, skiprows=1) for name in ("a.csv", "b.csv")]
