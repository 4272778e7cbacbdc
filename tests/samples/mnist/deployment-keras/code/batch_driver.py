import os
from os.path import basename, join


def init():
    global ink
    with open(join(os.environ["AZUREML_MODEL_DIR"], "model", "ink.txt")) as weights:
        ink = int(weights.read())


def run(mini_batch):
    return [f"{basename(path)},{open(path).read().count('#') // ink}" for path in mini_batch]
