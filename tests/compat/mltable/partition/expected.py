"""What the table is in plain pandas: the columns and rows of each of its files."""

import pandas as pd

FRAMES = []
for store, day, name in [("A", "2023-01-02", "x.y.csv"), ("B", "2023-02-01", "z.csv")]:
    frame = pd.read_csv(f"data/{store}/{day}/{name}")[["id"]]
    frame["Store"] = store
    frame["Day"] = pd.Timestamp(day).as_unit("ns")
    FRAMES.append(frame)
