"""Servers that are killed, cut off, too busy, or of another version; and proxies, which are left aside
here."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from package import SLOW, job_file, keys_of_job, prs, wait_until
from serve import Broken, Fake, problem

Connection = prs.server.connection.Connection
Form = prs.server.form.Form
WHO = (200, {}, b'{"name": "me", "role": "admin"}')


@pytest.fixture
def fake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Fake]]:
    """Starts a server that says what a real one does not."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    servers: list[Fake] = []

    def make(answers: dict[str, Any] | None = None) -> Fake:
        told = {"GET /api/v1/whoami": WHO, "*": problem("not-found", 404), **(answers or {})}
        servers.append(Fake(told))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


def keys_sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """The requests that are made from now on, and their keys."""
    sent: list[tuple[str, str | None]] = []
    ask = Connection._ask

    def noted(
        self: Any, connection: Any, method: str, path: str, query: Any, body: Any, headers: Any, silence: Any
    ):
        sent.append((f"{method} {path}", headers.get("Idempotency-Key")))
        return ask(self, connection, method, path, query, body, headers, silence)

    monkeypatch.setattr(Connection, "_ask", noted)
    return sent


def test_a_server_that_is_killed_while_a_job_comes_has_it_once(
    folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    server = serve()
    path = job_file(folder)
    (folder / "code/ballast.bin").write_bytes(os.urandom(3 << 10))
    sent, pieces, killed = keys_sent(monkeypatch), Form.pieces, []

    def torn(form: Any) -> Iterator[bytes]:
        for number, piece in enumerate(pieces(form)):
            if number == 4 and not killed:
                server.kill()
                killed.append(number)
                threading.Timer(0.5, server.start).start()
            yield piece

    monkeypatch.setattr(Form, "pieces", torn)
    job = prs.submit(path, server=server.url)
    assert killed, "it came before it could be killed"
    posts = [key for request, key in sent if request == "POST /api/v1/jobs"]
    assert len(posts) >= 2 and posts[0] and len(set(posts)) == 1
    assert job.wait().complete
    assert server.jobs == [job.id]


def test_a_server_that_is_killed_before_its_answer_has_the_job_once(
    folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    server = serve(PRS_FAILPOINT="handed_in:1")
    path, sent = job_file(folder), keys_sent(monkeypatch)

    def start_again() -> None:
        wait_until(server.has_ended, "it has passed the failpoint")
        server.start()

    again = threading.Thread(target=start_again)
    again.start()
    job = prs.submit(path, server=server.url)
    again.join()
    assert len([one for one, _ in sent if one == "POST /api/v1/jobs"]) >= 2
    assert job.wait().complete
    assert server.jobs == [job.id]


def test_a_wait_outlives_a_server_that_is_started_anew(folder: Path, serve: Callable[..., Any]):
    server = serve()
    job = prs.submit(job_file(folder, SLOW, files=10), server=server.url)
    ended: list[Any] = []
    waits = threading.Thread(target=lambda: ended.append(job.wait(progress=False)))
    waits.start()
    # Its secret is another one then.
    server.kill()
    server.start()
    waits.join()
    assert ended and ended[0].complete


def test_a_server_that_is_away_is_told(
    folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    server = serve()
    job = prs.submit(job_file(folder), server=server.url)
    job.wait()
    server.kill()
    monkeypatch.setattr(prs.server.job, "_PATIENCE", 0.5)
    monkeypatch.setattr(prs.server.connection, "PATIENCE", 0.5)
    for call in (job.wait, job.cancel, lambda: prs.submit("job.yml", server=server.url)):
        with pytest.raises(
            prs.Unreachable, match=r"cannot reach the server http://127\.0\.0\.1:\d+: .*prs serve"
        ):
            call()
    server.start()


def test_too_many_requests_are_sent_again_when_the_server_says(
    folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    server = serve("--write-rate", "1")
    seen, once = [], Connection._once

    def noted(self: Any, *given: Any) -> Any:
        answer = once(self, *given)
        seen.append(answer.status)
        return answer

    monkeypatch.setattr(Connection, "_once", noted)
    at, path = prs.connect(server.url), job_file(folder)
    jobs = [at.submit(path, allow_reuse=False) for _ in range(3)]
    assert 429 in seen and len({job.id for job in jobs}) == 3
    monkeypatch.setattr(prs.server.connection, "PATIENCE", 0.0)
    with pytest.raises(prs.TooManyRequests) as raised:
        for _ in range(20):
            at.connection.post("/api/v1/kept-out", prs.server.connection.Document(b"{}"))
    assert raised.value.problem.status == 429
    for job in jobs:
        assert job.wait().complete


ROWS = """\
    def run(mini_batch):
        return ["%09d" % number for number in range(200_000)]
"""


def result_of(folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, spoil: Any) -> Any:
    """A job of some megabytes at a server whose connections are spoilt."""
    server = serve()
    prs.submit(job_file(folder, ROWS, files=1), server=server.url).wait()
    broken = Broken(server.port, spoil)
    job = prs.connect(broken.url, server.token("read")).job("@latest")
    monkeypatch.setattr(type(job.server), "is_loopback", False)
    return job, broken


def is_download(said: bytes) -> bool:
    """Whether an answer is the result file."""
    return b"application/octet-stream" in said[:2000]


def test_a_download_that_breaks_off_goes_on(
    folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    cuts = []

    def spoil(number: int, said: bytes) -> bytes | None:
        if is_download(said) and len(said) > 700_000 and len(cuts) < 2:
            cuts.append(said[:20])
            return said[:700_000]
        return None

    job, broken = result_of(folder, serve, monkeypatch, spoil)
    path = job.result()
    assert len(cuts) == 2 and cuts[1].startswith(b"HTTP/1.1 206")
    assert path.stat().st_size == 2_000_000 and path.read_text().splitlines()[-1] == "000199999"
    assert [one.name for one in path.parent.iterdir()] == [path.name], "nothing half is left"
    broken.close()


def test_a_download_that_is_damaged_is_no_result(
    folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    damaged = []

    def spoil(number: int, said: bytes) -> bytes | None:
        if is_download(said) and said.endswith(b"000199999\n"):
            damaged.append(number)
            return said[:-3] + b"x\n\n"
        return None

    job, broken = result_of(folder, serve, monkeypatch, spoil)
    with pytest.raises(prs.PrsError, match="another SHA-256"):
        job.result(folder / "copy")
    assert damaged and list((folder / "copy").glob("*.txt")) == []
    broken.close()


def test_a_download_that_never_comes_ends(
    folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    def spoil(number: int, said: bytes) -> bytes | None:
        return said[:100] if is_download(said) else None

    job, broken = result_of(folder, serve, monkeypatch, spoil)
    monkeypatch.setattr(prs.server.download, "LOOK_PATIENCE", 0.5)
    with pytest.raises(prs.Unreachable):
        job.result()
    broken.close()


def test_a_server_of_an_older_version_is_told(folder: Path, fake: Callable[..., Fake]):
    server = fake()
    with pytest.raises(prs.ProgramMismatch, match="is of an older version"):
        prs.submit(keys_of_job(), server=server.url)
    record = {"schema": 1, "job_id": "a-1", "name": "a", "state": "running"}
    answers = {
        "GET /api/v1/jobs/a-1": (200, {}, json.dumps(record).encode()),
        "GET /api/v1/version": (200, {}, b'{"version": "0.1.0"}'),
    }
    with pytest.raises(prs.ProgramMismatch, match=r"is prs 0\.1\.0, .* its jobs have no "):
        prs.job("a-1", server=fake(answers=answers).url).status()


def test_a_server_of_a_newer_version_is_read_as_far_as_it_is_known(
    folder: Path, serve: Callable[..., Any], fake: Any
):
    real = prs.submit(job_file(folder), server=serve().url)
    real.wait()
    record = real.server.connection.get(f"/api/v1/jobs/{real.id}")
    newer = {**record, "of_tomorrow": {"a": 1}, "output": {**record["output"], "of_tomorrow": []}}
    path = f"GET /api/v1/jobs/{real.id}"
    server = fake(answers={path: (200, {}, json.dumps(newer).encode())})
    assert prs.job(real.id, server=server.url).wait().complete
    other = fake(answers={path: (200, {}, json.dumps({**newer, "schema": 2}).encode())})
    with pytest.raises(prs.ProgramMismatch, match="records of schema 2"):
        prs.job(real.id, server=other.url)


def test_what_is_no_server_of_prs_is_told(folder: Path, fake: Callable[..., Fake]):
    page = (200, {"Content-Type": "text/html"}, b"<html>")
    with pytest.raises(prs.PrsError, match="no JSON"):
        prs.connect(fake(answers={"GET /api/v1/whoami": page}).url)
    refused = (403, {"Content-Type": "text/html"}, b"<html>no</html>")
    with pytest.raises(prs.PrsError, match="no server of prs"):
        prs.connect(fake(answers={"GET /api/v1/whoami": refused}).url)
    away = (302, {"Location": "https://login.example.org/?next=secret"}, b"")
    with pytest.raises(prs.PrsError, match=r"sends requests on to https://login\.example\.org: give the URL"):
        prs.connect(fake(answers={"GET /api/v1/whoami": away}).url)


def test_a_server_of_this_machine_is_asked_without_a_proxy(
    folder: Path, fake: Callable[..., Fake], monkeypatch: pytest.MonkeyPatch
):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    server = fake()
    assert prs.connect(server.url).whoami()["role"] == "admin"
    # Another one is asked through it.
    monkeypatch.setenv("http_proxy", f"http://me:pass@127.0.0.1:{server.port}")
    server.asked.clear()
    with pytest.raises(prs.PrsError):
        prs.connect("http://prs.test:8470", "token", insecure_http=True)
    ((asked, headers),) = server.asked
    assert asked == "GET http://prs.test:8470/api/v1/whoami"
    assert (
        headers["Authorization"] == "Bearer token" and headers["Proxy-Authorization"] == "Basic bWU6cGFzcw=="
    )
    monkeypatch.setenv("no_proxy", "prs.test")
    with pytest.raises(prs.Unreachable):
        prs.connect("http://prs.test:8470", "token", insecure_http=True)
    assert len(server.asked) == 1


def test_certificates_are_checked(folder: Path, serve: Callable[..., Any]):
    certificate, key = folder / "prs.pem", folder / "prs.key"
    files = ["-days", "2", "-keyout", str(key), "-out", str(certificate)]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *files],
        check=True,
        capture_output=True,
    )
    server = serve("--tls-cert", str(certificate), "--tls-key", str(key))
    url = f"https://localhost:{server.port}"
    with pytest.raises(prs.Unreachable, match=r"is not to be trusted .* ca_file"):
        prs.connect(url)
    at = prs.connect(url, ca_file=certificate)
    assert at.submit(job_file(folder)).wait().complete
    with pytest.raises(prs.Unreachable, match="is not to be trusted"):
        prs.connect(f"https://127.0.0.1:{server.port}", server.token("read"), ca_file=certificate)
    with pytest.raises(prs.PrsError, match="cannot be read"):
        prs.connect(url, ca_file=folder / "absent.pem")
    with pytest.raises(prs.Unreachable, match="cannot reach"):
        prs.connect(f"http://localhost:{server.port}")


def test_a_refusal_before_all_is_sent_is_heard(folder: Path, serve: Callable[..., Any]):
    server = serve()
    path = job_file(folder)
    (folder / "code/ballast.bin").write_bytes(os.urandom(8 << 20))
    at = prs.connect(server.url, server.token("submit"))
    # As if it were revoked once the server has said what to send.
    at.connection.credentials.token = "prs_000000000000_" + "0" * 64 + "_00000000"
    form = Form()
    form.field("job", path.read_text())
    form.file("code", "code.tar.gz", folder / "code/ballast.bin")
    with pytest.raises(prs.AccessDenied):
        at.connection.post("/api/v1/jobs", form, is_once=True)
    assert server.jobs == []
