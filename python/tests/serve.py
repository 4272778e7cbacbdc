"""A server of prs for tests of the package: the real one, started, killed and started again; and connections
to it that break."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable

from package import PROGRAM, wait_until


class Serve:
    """`prs serve` in front of the runs of a folder, or of the fleet whose servers the variables of `fleet`
    name."""

    def __init__(
        self, folder: Path, *options: str, fleet: Mapping[str, str] | None = None, **variables: str
    ) -> None:
        self.folder = folder
        self.options = options
        self.runs = folder / "prs-runs"
        self._fleet = dict(fleet or {})
        self._place = [] if fleet else ["--runs", str(self.runs)]
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.start(**variables)

    def start(self, **variables: str) -> None:
        """Starts it, at the port that it had before."""
        said = self.folder / f"said-{time.monotonic_ns()}"
        listen = [] if "--listen" in self.options else ["--listen", f"127.0.0.1:{self.port}"]
        command = [str(PROGRAM), "serve", *listen, *self._place, *self.options]
        with open(said, "wb") as out:
            self._process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                env={**os.environ, **self._fleet, **variables},
            )
        process = self._process

        def is_up() -> bool:
            assert process.poll() is None, said.read_text()
            return re.search(r"prs serves .* on (\S+)", said.read_text()) is not None

        wait_until(is_up, "the server is up")
        found = re.search(r"prs serves .* on (\S+)", said.read_text())
        assert found is not None
        self.url = found[1]
        self.port = int(self.url.rsplit(":", 1)[1].strip("/"))

    def kill(self) -> None:
        """Ends it as `kill -9` does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def has_ended(self) -> bool:
        """Whether it did by itself."""
        assert self._process is not None
        return self._process.poll() is not None

    def close(self) -> None:
        """Ends it, and the jobs that it began."""
        for run in self.runs.glob("*-*"):
            subprocess.run(
                [str(PROGRAM), "cancel", str(run)], cwd=self.folder, capture_output=True, check=False
            )
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def run(self, *command: str) -> str:
        """Runs a command of the program on the same runs; gives what it prints."""
        whole, known = [str(PROGRAM), *command, *self._place], {**os.environ, **self._fleet}
        done = subprocess.run(whole, cwd=self.folder, env=known, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def token(self, role: str, *options: str) -> str:
        """A new token of this role."""
        return self.run("token", "create", f"of-{role}", "--role", role, *options).strip()

    @property
    def jobs(self) -> list[str]:
        """The runs that there are."""
        return sorted(path.name for path in self.runs.glob("*-*") if path.is_dir())


class Broken:
    """Stands before a server: answers pass through `spoil`, which gets the number of the connection, from 0,
    and what the server said, and gives what is passed on before the connection ends; `None` passes all."""

    def __init__(self, port: int, spoil: Callable[[int, bytes], bytes | None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port, self._spoil = port, spoil
        self.seen = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """Takes no more."""
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            number, self.seen = self.seen, self.seen + 1
            threading.Thread(target=self._pass, args=(client, number), daemon=True).start()

    def _pass(self, client: socket.socket, number: int) -> None:
        server = socket.create_connection(("127.0.0.1", self._port))
        threading.Thread(target=_copy, args=(client, server), daemon=True).start()
        said = b""
        try:
            while piece := server.recv(1 << 16):
                passed = self._spoil(number, said + piece)
                if passed is not None:
                    client.sendall(passed[len(said) :])
                    return
                client.sendall(piece)
                said += piece
        except OSError:
            pass
        finally:
            for one in (client, server):
                # The thread that reads from it holds it open beyond `close`.
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(1 << 16):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Fake:
    """A server that says what a real one does not: `answers` are status, headers and body by method and
    path."""

    def __init__(self, answers: dict[str, tuple[int, dict[str, str], bytes]]) -> None:
        fake = self
        self.asked: list[tuple[str, dict[str, str]]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = f"{self.command} {self.path}"
                fake.asked.append((asked, dict(self.headers)))
                status, headers, body = answers.get(asked.split("?")[0], answers["*"])
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = _answer

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()


def problem(slug: str, status: int, detail: str = "") -> tuple[int, dict[str, str], bytes]:
    """An answer with a problem."""
    document = {"type": f"/problems/{slug}", "title": slug, "status": status, "detail": detail, "hint": None}
    return status, {"Content-Type": "application/problem+json"}, json.dumps(document).encode()


__all__ = ["Broken", "Fake", "Serve", "problem"]
