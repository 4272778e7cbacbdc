"""What the table is in plain pandas: the columns and rows of each of its files."""

import json
from pathlib import Path

import pandas as pd

FIRST = pd.DataFrame([json.loads(line) for line in Path("a.jsonl").read_text().splitlines()][37:])
FRAMES = [FIRST, pd.DataFrame([{"id": 100}])]
