"""Makes the data and the model of the digits example.

The 1,797 handwritten digits that ship with scikit-learn become 8x8 PNG files
`data/<label>/digit_NNNN.png`. A logistic regression is trained on the files with an even number; the odd
ones are held out, so `accuracy.py` can tell how the model does on digits it has never seen.

The model is stored beside the entry script, because the code directory is what travels to the workers.
It is a plain .npz of two arrays: quick to load, and nothing in it is executed (as a pickle would be).
"""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
MODEL = HERE / "code" / "digits_model.npz"


def write_images(images: np.ndarray, labels: np.ndarray) -> None:
    """Writes one file per digit, in a folder named by what the digit shows."""
    for label in range(10):
        (DATA / str(label)).mkdir(parents=True, exist_ok=True)
    for number, (image, label) in enumerate(zip(images, labels)):
        Image.fromarray(image).save(DATA / str(label) / f"digit_{number:04d}.png")


def train(images: np.ndarray, labels: np.ndarray) -> None:
    """Trains on the digits with an even number and stores the weights."""
    pixels = images.reshape(len(images), -1) / 255.0
    model = LogisticRegression(C=2.0, max_iter=2000).fit(pixels[::2], labels[::2])
    np.savez(MODEL, coefficients=model.coef_, intercept=model.intercept_)


def main() -> None:
    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)  # the set counts grey from 0 to 16
    write_images(images, digits.target)
    train(images, digits.target)
    print(f"{len(images)} digits in {DATA}, model in {MODEL}")


if __name__ == "__main__":
    main()
