"""A service that answers questions and refuses more than `--per-second` of them: what the example asks.

Prints where it listens, and serves until it is ended.
"""

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Limit:
    """So many requests in each second of the clock."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._lock = threading.Lock()
        self._second = 0
        self._taken = 0

    def take(self) -> bool:
        """Whether one more is allowed now."""
        with self._lock:
            second = int(time.monotonic())
            if second != self._second:
                self._second, self._taken = second, 0
            self._taken += 1
            return self._taken <= self._per_second


class Answers(BaseHTTPRequestHandler):
    """The length of a question is its answer."""

    limit: Limit

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        question = json.loads(self.rfile.read(length))["question"]
        if not self.limit.take():
            self._answer(429, {"error": "too many requests"}, {"Retry-After": "1"})
            return
        self._answer(200, {"answer": len(question)}, {})

    def _answer(self, status: int, value: dict, headers: dict) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """A line for each request would be all there is to see."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--per-second", type=int, default=20)
    arguments = parser.parse_args()
    Answers.limit = Limit(arguments.per_second)
    with ThreadingHTTPServer(("127.0.0.1", arguments.port), Answers) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
