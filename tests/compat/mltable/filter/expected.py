"""What the table is in plain pandas: the columns and rows of each of its files."""

import pandas as pd

FRAMES = []
for name in ("a.csv", "b.csv"):
    frame = pd.read_csv(name).query(
        "score == score and (id > 3 or name == 'name 2') and not (id >= 40 and id < 43.5)"
    )
    frame["when"] = pd.to_datetime(frame["when"]).astype("datetime64[ns]")
    FRAMES.append(frame[(frame["when"] >= "2023-01-05") & (frame["when"] < "2023-02-20 11:00:00")])
