"""What the table is in plain pandas: the columns and rows of each of its files."""

import pandas as pd

NAMES = ["id", "name", "score", "late"]
A, B, D = (pd.read_csv(f"{name}.csv").reindex(columns=NAMES) for name in "abd")
# A comparison with something missing does not hold.
FRAMES = [A.iloc[:0], B[B.score > 1], D[~D.late]]
