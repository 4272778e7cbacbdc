"""Writes the headings of each page into a file of its own: `<page>.json`.

Files that a mini-batch writes below `output_dir` become part of the output when, and only when, the
mini-batch succeeds: a try that fails halfway, or a process that is killed, leaves nothing behind.
"""

import json
from pathlib import Path

from azureml_user.parallel_run import EntryScript


def run(mini_batch):
    """Writes a file for every path of the mini-batch; returns their names."""
    # Asked for in each run(): the files of each mini-batch are kept apart until it has succeeded.
    folder = Path(EntryScript().output_dir)
    written = []
    for page in map(Path, mini_batch):
        lines = page.read_text(encoding="utf-8").splitlines()
        headings = [line.lstrip("# ") for line in lines if line.startswith("#")]
        # Folders are as good as files. A name that another mini-batch has too is made unique by prs.
        target = folder / "contents" / f"{page.stem}.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(headings, indent=1), encoding="utf-8")
        written.append(target.name)
    return written  # one element for each item, so that none counts as failed
