"""What the table is in plain pandas: the columns and rows of each of its files."""

import pandas as pd

FRAMES = [pd.read_csv(name) for name in ("b.csv", "a.csv", "b.csv")]
