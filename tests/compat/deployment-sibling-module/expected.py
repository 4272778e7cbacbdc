from pathlib import Path

import pandas as pd

rows = []
files = Path("data").rglob("*.txt")
for file in sorted(files, key=lambda file: file.relative_to("data").as_posix().encode()):
    total = sum(int(word) for word in file.read_text().split())
    rows.append({"file": file.name, "class": total * 3 % 10, "probability": total / 7})
frame = pd.DataFrame(rows)
frame.to_csv("expected/predictions.csv", sep=" ", header=False, index=False)
read = pd.read_csv("expected/predictions.csv", sep=" ", header=None, names=["file", "class", "probability"])
pd.testing.assert_frame_equal(read, frame, check_exact=True)
