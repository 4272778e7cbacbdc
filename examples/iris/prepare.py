"""Makes the data and the model of the iris example.

The 150 iris flowers that ship with scikit-learn become five CSV files of 10, 20, 30, 40 and 50 rows, so
that mini-batches differ in size and the larger files are split. The model is one centroid per species,
computed from every second flower and stored as JSON beside the entry script, because the code directory is
what travels to the workers.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
MODEL = HERE / "code" / "iris_model.json"
MEASURES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


def main() -> None:
    iris = load_iris()
    flowers = pd.DataFrame(iris.data, columns=MEASURES)
    flowers["species"] = iris.target_names[iris.target]
    # The set is sorted by species; shuffled, every file holds all three.
    flowers = flowers.sample(frac=1, random_state=0)

    DATA.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(np.split(np.arange(len(flowers)), [10, 30, 60, 100])):
        flowers.iloc[part].to_csv(DATA / f"flowers_{number}.csv", index=False)

    centroids = flowers[::2].groupby("species")[MEASURES].mean()
    model = {"measures": MEASURES, "centroids": centroids.T.to_dict("list")}
    MODEL.write_text(json.dumps(model, indent=2) + "\n", encoding="utf-8")
    print(f"{len(flowers)} flowers in {DATA}, model in {MODEL}")


if __name__ == "__main__":
    main()
