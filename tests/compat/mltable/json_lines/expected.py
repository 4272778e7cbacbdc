"""What the table is in plain pandas: the columns and rows of each of its files."""

import json
from pathlib import Path

import pandas as pd

FRAMES = []
for name in ("a.jsonl", "b.txt"):
    FRAMES.append(pd.DataFrame([json.loads(line) for line in Path(name).read_text().splitlines()]))
