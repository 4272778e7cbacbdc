"""What goes along with a job is sent before it where it is much: each file once, whatever breaks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from package import job_file, keys_of_job, prs

Connection = prs.server.connection.Connection
Blob = prs.server.uploads._Blob
MUCH = 3 << 20


@pytest.fixture
def puts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The blobs that are sent, and the bytes of each."""
    sent: list[tuple[str, int]] = []
    send = Connection.send

    def noted(self: Any, method: str, path: str, **more: Any) -> Any:
        if method == "PUT":
            sent.append((path.rsplit("/", 1)[1], more["body"].size))
        return send(self, method, path, **more)

    monkeypatch.setattr(Connection, "send", noted)
    return sent


def sizes(puts: list[tuple[str, int]]) -> list[int]:
    """Of the large ones."""
    return sorted(size for _, size in puts if size >= 1 << 20)


def test_nothing_is_sent_twice(folder: Path, serve: Callable[..., Any], puts: list[tuple[str, int]]):
    server = serve()
    path = job_file(folder)
    (folder / "code/ballast.bin").write_bytes(os.urandom(MUCH))
    (folder / "code/run-me").write_bytes(os.urandom(MUCH))
    (folder / "code/run-me").chmod(0o755)
    (folder / "data/large.txt").write_bytes(b"9" * (1 << 20))
    first = prs.submit(path, server=server.url)
    assert first.wait().complete and len(first.result().read_text().splitlines()) == 5
    # The archive has what is small, and what may be run.
    assert sizes(puts) == [1 << 20, MUCH, pytest.approx(MUCH, rel=0.01)]
    top = folder / "prs-runs" / first.id / "sent/code"
    assert (top / "code/ballast.bin").read_bytes() == (folder / "code/ballast.bin").read_bytes()
    assert os.access(top / "code/run-me", os.X_OK) and not os.access(top / "code/ballast.bin", os.X_OK)
    puts.clear()
    assert prs.submit(path, server=server.url).wait().complete and puts == []
    # What is changed is sent, and nothing else of what is large.
    (folder / "data/large.txt").write_bytes(b"8" * (2 << 20))
    assert prs.submit(path, server=server.url).wait().complete
    assert sizes(puts) == [2 << 20]


def test_an_upload_that_breaks_goes_on(
    folder: Path, serve: Callable[..., Any], puts: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
):
    server = serve()
    path = job_file(folder)
    for number in range(3):
        (folder / f"data/large-{number}.txt").write_bytes(os.urandom(MUCH))
    pieces, killed = Blob.pieces, []

    def torn(blob: Any) -> Iterator[bytes]:
        for number, piece in enumerate(pieces(blob)):
            large = [sha256 for sha256, size in puts if size == MUCH]
            if number == 3 and len(large) == 2 and not killed and blob.sha256 == large[-1]:
                server.kill()
                killed.append(blob.sha256)
                threading.Timer(0.5, server.start).start()
            yield piece

    monkeypatch.setattr(Blob, "pieces", torn)
    job = prs.submit(path, server=server.url)
    assert killed, "it came before it could be killed"
    # Each of them once, from the first to the last: the one that was torn is sent again by its own request.
    assert sizes(puts) == [MUCH] * 3 and len({sha256 for sha256, _ in puts}) == len(puts)
    assert job.wait().complete and server.jobs == [job.id]


def test_who_gives_up_and_comes_again_goes_on(
    folder: Path, serve: Callable[..., Any], puts: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
):
    server = serve()
    path = job_file(folder)
    for number in range(2):
        (folder / f"data/large-{number}.txt").write_bytes(os.urandom(MUCH))
    pieces = Blob.pieces

    def torn(blob: Any) -> Iterator[bytes]:
        if len([size for _, size in puts if size == MUCH]) == 2:
            raise KeyboardInterrupt
        return pieces(blob)

    with monkeypatch.context() as broken:
        broken.setattr(Blob, "pieces", torn)
        with pytest.raises(KeyboardInterrupt):
            prs.submit(path, server=server.url)
    assert server.jobs == [] and sizes(puts) == [MUCH] * 2
    came = next(sha256 for sha256, size in puts if size == MUCH)
    puts.clear()
    assert prs.submit(path, server=server.url).wait().complete
    assert sizes(puts) == [MUCH] and came not in {sha256 for sha256, _ in puts}


def test_a_file_that_changes_on_its_way_is_told(
    folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    server = serve()
    path = job_file(folder)
    large = folder / "data/large.txt"
    large.write_bytes(b"1" * MUCH)
    send = prs.server.uploads.Uploads.send

    def changed(uploads: Any) -> None:
        large.write_bytes(b"2" * MUCH)
        send(uploads)

    monkeypatch.setattr(prs.server.uploads.Uploads, "send", changed)
    with pytest.raises(prs.UsageError, match=r"large\.txt was changed while it was sent"):
        prs.submit(path, server=server.url)
    assert server.jobs == []


def test_a_large_input_of_an_absolute_path_comes_as_itself(folder: Path, serve: Callable[..., Any]):
    server = serve()
    path = job_file(folder)
    (folder / "far").mkdir()
    (folder / "far/one.txt").write_bytes(b"1" * MUCH)
    text = path.read_text().replace("'path': 'data'", f"'path': '{folder}/far/one.txt', 'name': 'one'")
    path.write_text(text)
    job = prs.submit(path, server=server.url)
    assert job.wait().complete and job.result().read_text() == "one.txt\n"


def test_new_code_of_a_job_that_goes_on_is_sent_before(folder: Path, serve: Callable[..., Any]):
    server = serve()
    at = prs.connect(server.url)
    job_file(folder, "def run(mini_batch): raise ValueError('not yet')\n")
    keys = {**keys_of_job(), "run_max_try": 1}
    job = at.submit(keys)
    assert not job.wait(check=False).complete
    job_file(folder)
    (folder / "code/ballast.bin").write_bytes(os.urandom(MUCH))
    assert job.resume(code=folder / "code").wait().complete
