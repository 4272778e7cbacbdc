import os
from glob import glob
from pathlib import Path

import pandas as pd


def init():
    global model_path, column, output_path
    model_path = glob(os.environ["AZUREML_MODEL_DIR"] + "/*/")[0]
    assert os.path.basename(model_path.rstrip("/")) == "heart-model"
    column = os.environ["AZUREML_BI_TEXT_COLUMN"]
    output_path = os.environ["AZUREML_BI_OUTPUT_PATH"]


def run(mini_batch):
    limit = int(Path(model_path, "limit.txt").read_text())
    for file_path in mini_batch:
        data = pd.read_csv(file_path)
        above = data[data[column] > limit]
        above.to_csv(os.path.join(output_path, Path(file_path).name), index=False)
        yield True
