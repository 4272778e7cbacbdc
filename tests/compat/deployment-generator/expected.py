from pathlib import Path

import pandas as pd

files = list(Path("data").rglob("*.csv"))
for file in files:
    data = pd.read_csv(file)
    data[data["age"] > 50].to_csv(f"expected/{file.name}", index=False)
Path("expected/scored.txt").write_text("True\n" * len(files))
