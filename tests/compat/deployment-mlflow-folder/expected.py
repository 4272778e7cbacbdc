from pathlib import Path

import pandas as pd

files = sorted(Path("data").glob("*.txt"))
with open("expected/predictions.csv", "w") as out:
    for at in range(0, len(files), 2):
        rows = []
        for file in files[at : at + 2]:
            for number, prompt in enumerate(file.read_text().splitlines()):
                image = f"{file.stem}_{number}.txt"
                Path("expected", image).write_text("#*"[number % 2] * len(prompt))
                rows.append({"prompt": prompt, "image": image})
        pd.DataFrame(rows).to_csv(out, sep=",", header=False, index=True)
