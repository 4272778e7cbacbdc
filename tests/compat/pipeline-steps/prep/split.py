import argparse
import pathlib

parser = argparse.ArgumentParser()
parser.add_argument("--texts", required=True)
parser.add_argument("--parts", required=True)
parser.add_argument("--note", default="none")
arguments = parser.parse_args()
for number, path in enumerate(sorted(pathlib.Path(arguments.texts).rglob("*.txt"))):
    for at, line in enumerate(path.read_text().splitlines()):
        (pathlib.Path(arguments.parts) / f"{number}-{at}.txt").write_text(line + "\n")
print("note:", arguments.note)
