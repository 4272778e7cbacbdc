"""Says which digit each picture of a mini-batch shows.

An ordinary ParallelRunStep entry script for a file dataset: `init` loads the model once per process, `run`
gets a list of paths and returns one row per picture.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

coefficients = None
intercept = None


def init():
    """Loads the model; a relative `--model` is looked up beside this script."""
    global coefficients, intercept
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="digits_model.npz")
    args, _ = parser.parse_known_args()

    with np.load(Path(__file__).resolve().parent / args.model) as model:
        coefficients = model["coefficients"]
        intercept = model["intercept"]


def run(mini_batch):
    """Returns "<label>/<file>: <digit>" for every path of the mini-batch."""
    results = []
    for path in map(Path, mini_batch):
        with Image.open(path) as image:
            pixels = np.asarray(image, dtype=float).ravel() / 255.0
        digit = int(np.argmax(coefficients @ pixels + intercept))
        results.append(f"{path.parent.name}/{path.name}: {digit}")
    return results
