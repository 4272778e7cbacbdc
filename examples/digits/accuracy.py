"""Prints how many rows of a digits result are right. Usage: accuracy.py RESULT_FILE

The right answer is the folder a picture lies in; pictures with an odd number were held out of the
training. Fails when the rows are not the pictures of data/, each once, so that a wrong result is not taken
for a bad model.
"""

import sys
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"


def share(rows: list[tuple[str, str]]) -> str:
    right = sum(picture.split("/")[0] == digit for picture, digit in rows)
    return f"{right / len(rows):.1%} ({right} of {len(rows)})"


def number(picture: str) -> int:
    return int(picture.removesuffix(".png")[-4:])


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    rows = [tuple(line.rsplit(": ", 1)) for line in lines]

    expected = sorted(path.relative_to(DATA).as_posix() for path in DATA.glob("*/*.png"))
    if sorted(picture for picture, _ in rows) != expected:
        sys.exit(f"{len(rows)} rows are not the {len(expected)} pictures of {DATA}, each once")

    print(f"accuracy on all pictures: {share(rows)}")
    print(f"accuracy on the held-out half: {share([row for row in rows if number(row[0]) % 2 == 1])}")


if __name__ == "__main__":
    main()
