import os
from os.path import basename

import numpy as np
import pandas as pd


def init():
    global classes
    model_path = os.path.join(os.environ["AZUREML_MODEL_DIR"], "model")
    classes = np.loadtxt(os.path.join(model_path, "classes", "bounds.csv"), delimiter=",")


def run(mini_batch):
    results = []
    for path in mini_batch:
        values = np.loadtxt(path, ndmin=1)
        mean = values.mean()
        probabilities = np.abs(classes - mean) / np.abs(classes - mean).sum()
        results.append([basename(path), int(probabilities.argmin()), float(probabilities.min())])
    return pd.DataFrame(results, columns=["file", "class", "probability"])
