import os
from glob import glob
from os.path import basename

import pandas as pd
from mnist_classifier import MnistClassifier


def init():
    global model
    model_file = glob(f"{os.environ['AZUREML_MODEL_DIR']}/*/*.pt")[-1]
    model = MnistClassifier(model_file)


def run(mini_batch):
    print(f"run method start: {__file__}, run({len(mini_batch)} files)")
    results = []
    for image_path in mini_batch:
        digit, probability = model.predict(image_path)
        results.append({"file": basename(image_path), "class": digit, "probability": probability})
    return pd.DataFrame(results)
