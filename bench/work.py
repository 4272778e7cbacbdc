"""What a benchmark consists of: inputs, a job, the peers to compare with, and a check of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

PROCESSES = 2


class WrongRows(Exception):
    """A contestant's rows are not the work's rows, so its time means nothing."""


@dataclass(frozen=True)
class Peer:
    """A program in bench/peers (or a folder given with --peers) that does the same work."""

    name: str
    script: str
    arguments: tuple[str, ...]
    # The module that must be importable; None for what every environment of the project has.
    needs: str | None = None
    # How many times as fast prs aims to be.
    target: float | None = None
    # Measured in the first round only, as it takes minutes and is far from close.
    once: bool = False


class Work(ABC):
    """One row of the table in docs/benchmarks.md."""

    name: str
    title: str
    # What `n` counts, for the table.
    unit: str
    n: float
    peers: list[Peer]

    @abstractmethod
    def prepare(self) -> None:
        """Makes the inputs; not timed."""

    @abstractmethod
    def job(self) -> str:
        """The job file; its rows go to `rows.txt`."""

    @abstractmethod
    def check(self, rows: Path) -> None:
        """Raises WrongRows unless prs's result is what it must be."""

    @abstractmethod
    def compare(self, rows: Path, peer_rows: Path) -> str:
        """Compares prs's result, already checked, with a peer's rows, which may be in another order.

        Returns how well they agree in a few words; raises WrongRows when they do not.
        """


def job_file(name: str, entry_script: str, mini_batch_size: str, input_keys: str) -> str:
    """A job that runs an entry script of bench/code over one input."""
    code = Path(__file__).resolve().parent / "code"
    return f"""\
name: {name}
entry_script: {entry_script}
source_directory: '{code}'
mini_batch_size: {mini_batch_size}
process_count_per_node: {PROCESSES}
inputs:
  - {input_keys}
output_action: append_row
append_row_file_name: rows.txt
error_threshold: 0
allow_reuse: false
"""
