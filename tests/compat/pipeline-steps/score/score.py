import argparse
from pathlib import Path

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--how", required=True)
arguments, _ = parser.parse_known_args()


def run(mini_batch):
    texts = [Path(path).read_text().strip() for path in mini_batch]
    return [text.upper() if arguments.how == "upper" else text[::-1] for text in texts]
