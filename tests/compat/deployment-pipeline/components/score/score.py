import argparse
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--factor", type=int)
arguments, _ = parser.parse_known_args()


def run(mini_batch):
    return [f"{Path(path).stem} {int(Path(path).read_text()) * arguments.factor}" for path in mini_batch]
