import argparse
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path)
parser.add_argument("--lines", type=Path)
arguments = parser.parse_args()
for path in arguments.data.glob("*.txt"):
    for at, line in enumerate(path.read_text().split()):
        (arguments.lines / f"{path.stem}-{at}.txt").write_text(line)
