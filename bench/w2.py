"""W2: the mini-batches of W1 through RabbitMQ, Redis and object storage, one worker of two processes."""

from __future__ import annotations

from pathlib import Path

from paths import PATHS, regardless_of_order
from w1 import ManyTinyMiniBatches
from work import Peer, WrongRows


class ManyTinyMiniBatchesOnAFleet(ManyTinyMiniBatches):
    name = "W2"
    on_fleet = True
    tiny, full = 1_000, 100_000

    def make_peers(self, size: str) -> list[Peer]:
        self.title = f"{self.n:,} no-op mini-batches of {PATHS} paths on a fleet, one worker"
        # A rate that does not depend on how many there are, and so low that a full count would take minutes.
        self.few = few = {"tiny": 100, "full": 5_000}[size]
        return [
            Peer("Celery", "w2_celery.py", (str(few),), needs="celery", target=10.0, n=few),
            # What a broker can do at all: less than 1.0 is what there is to reach.
            Peer("RabbitMQ alone", "w2_broker.py", (str(self.n),), target=0.4),
        ]

    def compare(self, rows: Path, peer_rows: Path) -> str:
        # Only Celery writes rows: those of the first mini-batches, which prs has first.
        if regardless_of_order(rows, self.few * PATHS) != regardless_of_order(peer_rows):
            raise WrongRows(f"{peer_rows}: not the rows of the first {self.few:,} mini-batches in {rows}")
        return "same rows of fewer mini-batches: rates are compared"
