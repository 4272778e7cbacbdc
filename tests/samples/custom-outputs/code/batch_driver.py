import csv
import glob
import json
import os
from pathlib import Path


def init():
    global weights, output_path
    output_path = os.environ["AZUREML_BI_OUTPUT_PATH"]
    with open(glob.glob(f"{os.environ['AZUREML_MODEL_DIR']}/*/*.json")[-1]) as model:
        weights = json.load(model)


def run(mini_batch):
    for file_path in mini_batch:
        with open(file_path, newline="") as table:
            rows = list(csv.DictReader(table))
        for row in rows:
            row["prediction"] = sum(int(row[name]) * weight for name, weight in weights.items())
        path = os.path.join(output_path, Path(file_path).stem + ".json")
        with open(path, "w") as scored:
            json.dump(rows, scored)
    return mini_batch
