"""What the table is in plain pandas: the columns and rows of each of its files."""

import json
from pathlib import Path

import pandas as pd

LINES = Path("a.jsonl").read_text().splitlines()
FRAMES = [pd.DataFrame([json.loads(line) for line in [*LINES[:40], LINES[-1]]])]
