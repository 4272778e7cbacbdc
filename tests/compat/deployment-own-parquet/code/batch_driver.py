import glob
import os
import pickle
from pathlib import Path

import pandas as pd


def init():
    global weights, output_path
    model_path = os.environ["AZUREML_MODEL_DIR"]
    output_path = os.environ["AZUREML_BI_OUTPUT_PATH"]
    model_file = glob.glob(f"{model_path}/*/*.pkl")[-1]
    with open(model_file, "rb") as opened:
        weights = pickle.load(opened)


def run(mini_batch):
    for file_path in mini_batch:
        assert isinstance(file_path, str) and os.path.isabs(file_path)
        data = pd.read_csv(file_path)
        data["prediction"] = data["age"] * weights["age"] + data["pressure"] * weights["pressure"]
        data.to_parquet(os.path.join(output_path, Path(file_path).stem + ".parquet"))
    return mini_batch
