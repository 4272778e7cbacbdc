"""What a benchmark consists of: inputs, a job, the peers to compare with, and a check of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contestant import Outcome
    from fleet import Fleet

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
    # How many units of the work it is given, where that is not all of them: then rates are compared.
    n: float | None = None


class Work(ABC):
    """Work that prs and its peers do in turn: a row of the table in docs/benchmarks.md."""

    name: str
    title: str
    # Whether prs does it on a fleet of one worker, else embedded.
    on_fleet: bool = False
    # Files that the fleet has as objects.
    objects: Path | None = None
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


@dataclass(frozen=True)
class Figure:
    """One thing that a study found."""

    name: str
    value: float
    unit: str
    # What prs aims at, in words.
    target: str = ""


@dataclass(frozen=True)
class Bench:
    """What a study is given: servers, and how to run a job in a folder below `scratch`, on the servers that
    variables name, or embedded without any.
    """

    fleet: Fleet
    scratch: Path
    run_prs: Callable[[str, Path, dict[str, str]], Outcome]
    progress: Callable[[str], None]


class Study(ABC):
    """A row of that table where prs is compared with itself, at other sizes or under other conditions."""

    name: str
    title: str
    on_fleet: bool = True
    objects: Path | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Makes the inputs; not timed."""

    @abstractmethod
    def measure(self, bench: Bench) -> list[Figure]:
        """Runs everything once; raises WrongRows when a result is not what it must be."""


def job_file(
    name: str,
    entry_script: str,
    mini_batch_size: str,
    input_keys: str,
    *,
    processes: int = PROCESSES,
    more: str = "",
) -> str:
    """A job that runs an entry script of bench/code over one input, with more lines at its end.

    Its result is in the folder of the job file: from a fleet it is fetched there, within the time.
    """
    code = Path(__file__).resolve().parent / "code"
    return f"""\
name: {name}
entry_script: {entry_script}
source_directory: '{code}'
mini_batch_size: {mini_batch_size}
process_count_per_node: {processes}
inputs:
  - {input_keys}
output_action: append_row
append_row_file_name: rows.txt
output: output
error_threshold: 0
allow_reuse: false
{more}"""
