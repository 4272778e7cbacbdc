"""Prints how many rows of an iris result are right. Usage: accuracy.py RESULT_FILE

A row is four measures, the species and the prediction, with a space between them. Fails when the rows are
not those of data/, in its order, so that a wrong result is not taken for a bad model.
"""

import csv
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"


def rows(path: Path, delimiter: str) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter=delimiter))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    result = rows(Path(sys.argv[1]), " ")
    expected = [row for path in sorted(DATA.glob("*.csv")) for row in rows(path, ",")[1:]]
    if [row[:5] for row in result] != expected:
        sys.exit(f"{len(result)} rows are not the {len(expected)} flowers of {DATA} in their order")

    right = sum(species == prediction for *_, species, prediction in result)
    print(f"accuracy: {right / len(result):.1%} ({right} of {len(result)})")


if __name__ == "__main__":
    main()
