"""What the scripts of the ledger cost Redis, and how much they keep there, for as many nodes as one likes.

    bench/ledger.py [--bin-dir DIR] [--nodes 10 1000] [--segments 20000]

Runs the files in common/src/ledger/redis/lua on a Redis of its own, and tells their time as Redis counts it:
what a network and a client add is left out. The figures of docs/scale.md are made of these.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import tempfile
from pathlib import Path

from fleet import Fleet
from redis_client import Redis

ROOT = Path(__file__).resolve().parent.parent
LUA = ROOT / "common/src/ledger/redis/lua"
KINDS = ("job", "ended", "segments", "segment_keys", "tries", "nodes", "workers", "heard", "leases")
TIMES = 500  # that a script is called
IN_A_SEGMENT = 20  # mini-batches
# What a node says of itself, as long as the real thing.
REPORT = "r" * 120


class Ledger:
    """The keys of one job, and one of a target, in a Redis."""

    def __init__(self, redis: Redis, job: str) -> None:
        self.redis = redis
        self.keys = {kind: f"prs:{{{job}}}:{kind}" for kind in KINDS}
        self.digests = {
            file.stem: redis.call("SCRIPT", "LOAD", file.read_text(encoding="utf-8"))
            for file in LUA.glob("*.lua")
        }

    def run(self, script: str, kinds: str, *arguments: object) -> object:
        keys = [self.keys[kind] for kind in kinds.split()]
        return self.redis.call("EVALSHA", self.digests[script], len(keys), *keys, *arguments)

    def microseconds(self, call: object, times: int = TIMES) -> float:
        """Of one call, as Redis counts it."""
        self.redis.call("CONFIG", "RESETSTAT")
        for number in range(times):
            call(number)
        stats = self.redis.call("INFO", "commandstats").decode()
        return float(re.search(r"^cmdstat_evalsha:.*usec_per_call=([\d.]+)", stats, re.MULTILINE).group(1))


def pack(values: list[int]) -> bytes:
    """MessagePack of a list of numbers below 2^32."""
    head = b"\xdd" + len(values).to_bytes(4, "big")
    return head + b"".join(b"\xce" + value.to_bytes(4, "big") for value in values)


def commit(ledger: Ledger, number: int) -> None:
    first = number * IN_A_SEGMENT
    indexes = pack(list(range(first, first + IN_A_SEGMENT)))
    key = f"segments/1/000000-0123456789abcdef-{number:06}"
    counts = (IN_A_SEGMENT, 0, IN_A_SEGMENT, IN_A_SEGMENT)
    details = pack([1] * (3 * IN_A_SEGMENT))
    ledger.run("commit", "job ended segments segment_keys tries", key, 100_000, *counts, indexes, details)


def measure(redis: Redis, nodes: int, segments: int) -> None:
    redis.call("FLUSHALL")
    ledger = Ledger(redis, f"job-of-{nodes}")
    redis.call("HSET", ledger.keys["job"], "state", "running", "scheduled", 10_000_000, "planned", 1)
    redis.call("HSET", "prs:{@t}:offers", f"job-of-{nodes}", "o" * 200)
    ledger.keys.update({kind: f"prs:{{@t}}:{kind}" for kind in ("offers", "idle", "filled")})
    for node in range(nodes):
        ledger.run("join", "job nodes workers heard", f"worker-{node}", "i" * 60, node, "", 900_000)
        ledger.run("heartbeat", "job nodes heard", node, f"worker-{node}", REPORT)
        ledger.run("offers", "offers idle filled", f"idle-{node}", 900_000, 60_000_000, 86_400)
    before = used(redis)
    for number in range(segments):
        commit(ledger, number)
    after = used(redis)
    keys = " ".join(KINDS)
    calls = {
        "heartbeat": lambda n: ledger.run(
            "heartbeat", "job nodes heard", n % nodes, f"worker-{n % nodes}", REPORT
        ),
        "lease": lambda n: ledger.run("lease", keys, "watch", f"worker-{n % nodes}", 3_000_000, 86_400),
        "commit": lambda n: commit(ledger, segments + n),
        "nodes": lambda _: ledger.run("nodes", "job nodes"),
        "progress": lambda _: ledger.run("progress", "job segments"),
        "offers": lambda n: ledger.run(
            "offers", "offers idle filled", f"idle-{n % nodes}", 900_000, 60_000_000, 86_400
        ),
    }
    costs = ", ".join(f"{name} {ledger.microseconds(call):.0f}" for name, call in calls.items())
    print(f"{nodes:,} nodes: microseconds of a call: {costs}")
    if segments:
        ended = redis.call("MEMORY", "USAGE", ledger.keys["ended"])
        print(
            f"  {segments:,} segments: {(after - before - ended) / segments:.0f} bytes each; "
            f"{segments * IN_A_SEGMENT:,} mini-batches: {ended:,} bytes"
        )


def used(redis: Redis) -> int:
    return int(re.search(r"^used_memory:(\d+)", redis.call("INFO", "memory").decode(), re.MULTILINE).group(1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bin-dir", type=Path, default=ROOT / "target/release", help="folder of fleet-servers"
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1_000], help="[10 100 1000]")
    parser.add_argument("--segments", type=int, default=20_000, help="that are committed before [20000]")
    settings = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        contextlib.closing(Fleet(settings.bin_dir.absolute(), Path(scratch), None)) as fleet,
        Redis(fleet.environment["PRS_REDIS_URL"]) as redis,
    ):
        for nodes in settings.nodes:
            measure(redis, nodes, settings.segments)


if __name__ == "__main__":
    main()
