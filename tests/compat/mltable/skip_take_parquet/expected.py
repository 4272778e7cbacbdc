"""What the table is in plain pandas: the columns and rows of each of its files."""

import pandas as pd

FRAMES = [pd.read_parquet("a.parquet").iloc[13:], pd.read_parquet("b").iloc[: 51 - 37]]
