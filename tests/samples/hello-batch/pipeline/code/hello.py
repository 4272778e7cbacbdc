import argparse
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--word")
parser.add_argument("--greeting", type=Path)
arguments = parser.parse_args()
(arguments.greeting / "greeting.txt").write_text(f"{arguments.word}, batch\n")
