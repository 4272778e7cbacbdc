"""Results that come straight from the storage behind a server: slow ones, torn ones, and a storage that
refuses."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from package import job_file, prs
from serve import Broken

Spoil = Callable[[int, bytes], "bytes | None"]

ROWS = """\
    def run(mini_batch):
        return ["%09d" % number for number in range(200_000)]
"""
SIZE = 2_000_000


def is_direct(said: bytes) -> bool:
    """Whether an answer of the storage is a file for a caller: the server itself asks for no attachment."""
    return b"attachment" in said[:2000]


def answer(status: str) -> bytes:
    """One of the storage that is no file."""
    body = b"<Error><Code>Told</Code><Message>told to</Message></Error>"
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Storage:
    """What stands before the storage: callers meet what `spoil` says, the server itself meets nothing."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.spoil: Spoil | None = None
        self.port = int(variables["AWS_ENDPOINT_URL_S3"].rsplit(":", 1)[1])
        self.broken = Broken(self.port, self._pass)
        self.variables = {**variables, "AWS_ENDPOINT_URL_S3": self.broken.url}

    def _pass(self, number: int, said: bytes) -> bytes | None:
        return self.spoil(number, said) if self.spoil and is_direct(said) else None


@pytest.fixture
def storage(servers: dict[str, str]) -> Iterator[Storage]:
    """That of the fleet."""
    storage = Storage(servers)
    yield storage
    storage.broken.close()


@pytest.fixture
def job(folder: Path, serve: Callable[..., Any], storage: Storage) -> Any:
    """One that has ended, at a server that sends callers on to the storage."""
    server = serve("--direct-downloads", fleet=storage.variables)
    prs.submit(job_file(folder, ROWS, files=1), server=server.url).wait()
    return prs.connect(server.url, server.token("read")).job("@latest")


def is_whole(path: Path) -> bool:
    """Whether it is the result, and nothing is beside it."""
    alone = [one.name for one in path.parent.iterdir()] == [path.name]
    return alone and path.stat().st_size == SIZE and path.read_text().splitlines()[-1] == "000199999"


def test_a_result_comes_straight_from_the_storage(job: Any, storage: Storage, folder: Path):
    seen: list[int] = []

    def noted(number: int, said: bytes) -> None:
        seen.append(number)

    storage.spoil = noted
    assert is_whole(job.result(folder / "copy")) and is_whole(job.result())
    assert len(set(seen)) == 2, "each of them from there"
    assert len(job.dataframe()) == 200_000


def test_a_slow_storage_is_waited_for(job: Any, storage: Storage, folder: Path):
    slow: list[int] = []

    def late(number: int, said: bytes) -> None:
        if len(slow) < 8:
            slow.append(number)
            time.sleep(0.3)

    storage.spoil = late
    assert is_whole(job.result(folder / "copy")) and len(slow) == 8


def test_a_download_from_the_storage_that_breaks_off_goes_on(job: Any, storage: Storage, folder: Path):
    cuts: list[bytes] = []

    def cut(number: int, said: bytes) -> bytes | None:
        if len(said) > 700_000 and len(cuts) < 2:
            cuts.append(said[:20])
            return said[:700_000]
        return None

    storage.spoil = cut
    assert is_whole(job.result(folder / "copy"))
    assert len(cuts) == 2 and cuts[1].startswith(b"HTTP/1.1 206"), "with a new URL, on from where it was"


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Slow Down", "403 Forbidden"])
def test_a_storage_that_refuses_for_a_moment_is_asked_again(
    job: Any, storage: Storage, folder: Path, status: str
):
    refused: list[int] = []

    def refuse(number: int, said: bytes) -> bytes | None:
        if number not in refused and len(refused) >= 2:
            return None
        if number not in refused:
            refused.append(number)
        return answer(status)

    storage.spoil = refuse
    assert is_whole(job.result(folder / "copy")) and len(refused) == 2


def test_a_storage_that_goes_on_refusing_is_told(
    job: Any, storage: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(prs.server.download, "LOOK_PATIENCE", 1.0)
    storage.spoil = lambda number, said: answer("403 Forbidden")
    place = storage.broken.url
    with pytest.raises(prs.Unreachable, match=f"{place}: the storage, to which .* answers 403 again"):
        job.result(folder / "copy")
    storage.spoil = lambda number, said: answer("404 Not Found")
    with pytest.raises(prs.PrsError, match=f"{place}: the storage, to which .* answers 404"):
        job.result(folder / "copy")
    storage.spoil = lambda number, said: said[:100]
    with pytest.raises(prs.Unreachable, match=place):
        job.result(folder / "copy")
    assert list((folder / "copy").iterdir()) == [], "nothing half is left"


def test_what_the_storage_damages_is_no_result(job: Any, storage: Storage, folder: Path):
    def damage(number: int, said: bytes) -> bytes | None:
        return said[:-3] + b"x\n\n" if said.endswith(b"000199999\n") else None

    storage.spoil = damage
    with pytest.raises(prs.PrsError, match="another SHA-256"):
        job.result(folder / "copy")
    assert list((folder / "copy").glob("*.txt")) == []


def test_a_job_is_followed_while_its_storage_answers_slowly(
    folder: Path, serve: Callable[..., Any], storage: Storage
):
    server = serve("--direct-downloads", fleet=storage.variables)
    job = prs.submit(job_file(folder, ROWS, files=1), server=server.url)
    ended: list[Any] = []
    waits = threading.Thread(target=lambda: ended.append(job.wait(progress=False)))
    waits.start()
    storage.spoil = lambda number, said: time.sleep(0.1)
    waits.join()
    assert ended and ended[0].complete and is_whole(job.result(folder / "copy"))
