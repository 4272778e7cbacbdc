"""What the table is in plain pandas: the columns and rows of each of its files."""

import pandas as pd

FRAME = pd.read_csv("a.csv", dtype=str)
FRAME["whole"] = FRAME["whole"].astype("int64")
FRAME["gap"] = FRAME["gap"].astype("float64").astype("Int64")
FRAME["real"] = FRAME["real"].astype("float64")
FRAME["yes"] = FRAME["yes"].isin(["Y", "on"])
FRAME["no"] = FRAME["no"].isin(["Y", "on"])
FRAME["truth"] = FRAME["truth"].str.lower().isin(["true", "1"])
FRAME["when"] = pd.to_datetime(FRAME["when"]).astype("datetime64[ns]")
DAYS = FRAME["day"].str[:2]
FRAME["day"] = pd.to_datetime("2022-03-" + DAYS).astype("datetime64[ns]")
FRAME["time"] = pd.to_datetime("2023-05-06 " + FRAME["time"], format="%Y-%m-%d %I:%M %p").astype(
    "datetime64[ns]"
)
FRAMES = [FRAME]
