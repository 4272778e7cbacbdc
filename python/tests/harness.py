"""Plays the agent: starts a real process and speaks the wire with it.

Knows the protocol only as `common/src/wire/` and `process_page.rs` write it down. Every wait has a
deadline.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

PACKAGE = Path(__file__).resolve().parent.parent / "azureml_user"
# The version of the protocol.
PROTOCOL = 11
DEADLINE = 60.0
PHASES = ["Starting", "Init", "Idle", "Loading", "Running", "Shutdown"]


class Frame(NamedTuple):
    """`Frame`."""

    file: str
    line: int
    function: str
    source: str


class Error(NamedTuple):
    """`ErrorInfo`."""

    stage: str
    category: str
    message: str
    traceback: str
    frame: Frame | None

    @classmethod
    def of(cls, fields: list[Any] | None) -> Error | None:
        if fields is None:
            return None
        *rest, frame = fields
        return cls(*rest, frame=None if frame is None else Frame(*frame))


class Outcome(NamedTuple):
    """`Outcome`."""

    seq: int
    items: int
    returned: int
    rows: bytes
    header: str | None
    files: list[str]
    started_us: int
    elapsed_us: int
    cpu_us: int
    run_us: int
    load_us: int
    error: Error | None
    printed: list[list[int]] | None = None
    contents: list[Any] | None = None

    @classmethod
    def of(cls, fields: list[Any]) -> Outcome:
        *rest, error = fields[:12]
        return cls(*rest, Error.of(error), *fields[12:])


# Where the rows are in an outcome.
ROWS = Outcome._fields.index("rows")


class Page:
    """The agent's side of the process page."""

    def __init__(self, lanes: int) -> None:
        self.descriptor = os.memfd_create("page")
        size = 64 + 16 * lanes
        os.ftruncate(self.descriptor, size)
        self._words = mmap.mmap(self.descriptor, size)
        self._lanes = lanes

    def _word(self, index: int) -> int:
        return int(struct.unpack_from("<Q", self._words, index * 8)[0])

    def grant(self, limit: int) -> None:
        struct.pack_into("<I", self._words, 4, limit)

    @property
    def started(self) -> int:
        return self._word(0) & 0xFFFF_FFFF

    @property
    def phase(self) -> str:
        return PHASES[self._word(1) & 7]

    @property
    def items(self) -> int:
        return self._word(2)

    @property
    def in_flight(self) -> dict[int, str]:
        """What is under way: number and phase."""
        lanes = [
            (self._word(8 + 2 * lane) >> 32, self._word(9 + 2 * lane) & 7) for lane in range(self._lanes)
        ]
        return {seq: PHASES[phase] for seq, phase in lanes if phase in (3, 4)}

    @property
    def step(self) -> int:
        """Which mini-batch has the main thread; 0 for none."""
        return self._word(3)


def files(
    *paths: str, base: str = "/data", versions: bytes = b"", names: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The work of a mini-batch of files; without versions, they need not exist."""
    return {"Files": [base, list(paths), versions, list(names)]}


def planned_files(*paths: Path) -> dict[str, Any]:
    """The work of a mini-batch of files as they are now."""
    packed, before = b"", 0
    for path in paths:
        status = path.stat()
        seconds, nanoseconds = divmod(status.st_mtime_ns, 10**9)
        moved, before = seconds - before, seconds
        packed += _varint(status.st_size) + _varint(moved * 2 if moved >= 0 else -moved * 2 - 1)
        packed += struct.pack("<I", nanoseconds)
    return files(*(str(path) for path in paths), base="", versions=packed)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def crc32c(data: bytes) -> int:
    """The checksum that slices have."""
    crc = 0xFFFF_FFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F6_3B78 if crc & 1 else 0)
    return crc ^ 0xFFFF_FFFF


def delimited(
    path: Path, names: Any, types: str, *, origin: str = "", part: Any = None, **more: Any
) -> dict[str, Any]:
    """The work of a slice of a CSV file as it is now; `part` is its bytes from and to. `types` has a letter a
    column, as `ColumnType` has it; `names` is a list, or a number where there is no header."""
    columns = {"h": names} if isinstance(names, list) else {"p": names}
    declared = more.get("declared", [False] * len(types))
    dialect = [ord(more.get("delimiter", ",")), isinstance(names, list)]
    reader = {"Delimited": [dialect, [columns, list(types), declared]]}
    return table(path, reader, origin=origin, part=part, records=more.get("records", 1))


def table(path: Path, reader: Any, *, origin: str = "", part: Any = None, records: int = 1) -> dict[str, Any]:
    """The work of a slice of a table as it is now; `reader` is a `TableReader`."""
    status = path.stat()
    start, end = part or (0, status.st_size)
    seconds, nanoseconds = divmod(status.st_mtime_ns, 10**9)
    version = f"{status.st_size}-{seconds}.{nanoseconds:09}"
    checksum = crc32c(path.read_bytes()[start:end])
    origin = origin or str(path)
    name_at = len(origin) - len(Path(origin).name)
    packed = msgpack.packb(reader)
    return {
        "Slice": ["Local", str(path), origin, name_at, version, start, end, records, checksum, packed, b"", 0]
    }


def row_groups(
    path: Path,
    groups: tuple[int, int],
    rows: tuple[int, int] | None = None,
    *,
    records: int | None = None,
    footer_file: str = "",
    types_file: str = "",
    origin: str = "",
    of_table: list[Any] | None = None,
) -> dict[str, Any]:
    """The work of row groups of a Parquet file as it is now, or of some rows of one; `footer_file` will have
    its footer, `types_file` the data that decides on types; `of_table` are the columns of its Delta table."""
    import pyarrow.parquet

    if records is None:
        footer = pyarrow.parquet.read_metadata(path)
        of_groups = sum(footer.row_group(group).num_rows for group in range(*groups))
        records = of_groups if rows is None else rows[1] - rows[0]
    content = path.read_bytes()
    (length,) = struct.unpack("<I", content[-8:-4])
    place = (len(content) - 8 - length, len(content))
    reader = {"Parquet": [groups, rows, None, [], place, footer_file, bool(types_file), types_file, of_table]}
    return table(path, reader, origin=origin, part=place, records=records)


def extension() -> Path:
    """The built extension under test."""
    path = os.environ.get("PRS_PROCESS_EXTENSION")
    if not path:
        raise RuntimeError(
            "set PRS_PROCESS_EXTENSION to the built libprs_process.so (cargo build -p prs-python)"
        )
    if not Path(path).is_file():
        raise RuntimeError(f"PRS_PROCESS_EXTENSION={path} does not exist")
    return Path(path).resolve()


class Process:
    """A process of ours, and the connection to it."""

    def __init__(
        self,
        folder: Path,
        script: str | None = None,
        *,
        code: dict[str, str] | None = None,
        entry_script: str = "score.py",
        environment: dict[str, str] | None = None,
        inputs: list[list[str]] | None = None,
        sitecustomize: str = "",
        concurrency: int | None = None,
        run_timeout: int = 60,
        **start: Any,
    ) -> None:
        self.folder = folder
        self.code_dir = folder / "code"
        sources = dict(code or {})
        if script is not None:
            sources[entry_script] = script
        for name, text in sources.items():
            (self.code_dir / name).parent.mkdir(parents=True, exist_ok=True)
            (self.code_dir / name).write_text(text, encoding="utf-8")
        self.code_dir.mkdir(parents=True, exist_ok=True)
        self.start_fields: dict[str, Any] = {
            "protocol": PROTOCOL,
            "job_id": "job-1",
            "node_id": 3,
            "process_name": "process007",
            "code_dir": str(self.code_dir),
            "entry_script": entry_script,
            "arguments": [],
            "logging_level": "INFO",
            "append_row": True,
            "output_format": None,
            "log_dir": str(folder / "entry_script_log"),
            "working_dir": str(folder / "work"),
            "output_dir": str(folder / "output"),
            "staging_dir": str(folder / "staging"),
            "longest_output_path": 900,
            "scratch_dir": str(folder / "scratch"),
            "profile_path": None,
            "inputs": inputs or [["images", "file", "./images"]],
            "stack_path": str(folder / "stack.txt"),
            "stack_signal": 40,
            "outputs": [],
            "concurrency": [concurrency or 4, concurrency is not None, run_timeout, str(folder / "outputs")],
            "run_max_try": 3,
        }
        self.start_fields.update(start)
        self.page = Page(concurrency or 4)
        self.notices: list[str] = []
        self.is_permanent: bool | None = None
        self.skipped: list[int] = []
        self.run_frame: Frame | None = None
        self.concurrency: int | None = None
        self._seq = 0
        self._backlog: list[Outcome] = []
        self._spawn(environment or {}, sitecustomize)

    def _spawn(self, environment: dict[str, str], sitecustomize: str) -> None:
        packages = self.folder / "packages"
        packages.mkdir()
        (packages / "sitecustomize.py").write_text(sitecustomize, encoding="utf-8")
        (packages / "azureml_user").symlink_to(PACKAGE)
        (packages / "prs_process.abi3.so").symlink_to(extension())
        ours, theirs = socket.socketpair()
        self.socket = ours
        variables = {
            **os.environ,
            "PYTHONPATH": str(packages),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PRS_PROCESS_SOCKET": str(theirs.fileno()),
            "PRS_PROCESS_PAGE": str(self.page.descriptor),
            "AZUREML_BI_OUTPUT_PATH": self.start_fields["output_dir"],
            **environment,
        }
        variables.pop("PRS_PROCESS_EXTENSION", None)
        Path(self.start_fields["working_dir"]).mkdir(parents=True, exist_ok=True)
        with self.stdout_path.open("wb") as out, self.stderr_path.open("wb") as err:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "azureml_user.parallel_run.process"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=variables,
                cwd=self.start_fields["working_dir"],
                pass_fds=(theirs.fileno(), self.page.descriptor),
                start_new_session=True,
            )
        theirs.close()
        kind, hello = self.receive()
        assert kind == "Hello", kind
        assert hello == [PROTOCOL, "{}.{}.{}".format(*sys.version_info[:3])]
        self.send({"Start": list(self.start_fields.values())})

    @property
    def stdout_path(self) -> Path:
        return self.folder / "stdout.txt"

    @property
    def stderr_path(self) -> Path:
        return self.folder / "stderr.txt"

    @property
    def stdout(self) -> str:
        return self.stdout_path.read_text(encoding="utf-8", errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_path.read_text(encoding="utf-8", errors="replace")

    def send(self, message: Any, raw: bytes = b"") -> None:
        head = msgpack.packb(message)
        self.socket.sendall(struct.pack("<II", len(head), len(raw)) + head + raw)

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            ready, _, _ = select.select([self.socket], [], [], DEADLINE)
            assert ready, f"nothing came for {DEADLINE} s; stderr: {self.stderr}"
            part = self.socket.recv(min(size, 1 << 20))
            if not part:
                raise EOFError(f"the process closed the connection; stderr: {self.stderr}")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def receive(self) -> tuple[str, Any]:
        """The next message: its name and its content, which has the rows in place of their lengths."""
        lengths = struct.unpack("<II", self._read(8))
        message = msgpack.unpackb(self._read(lengths[0]))
        raw = self._read(lengths[1])
        assert isinstance(message, dict), message
        ((kind, content),) = message.items()
        if kind == "Outcomes":
            for outcome in content:
                length = outcome[ROWS]
                outcome[ROWS], raw = raw[:length], raw[length:]
        assert not raw, "more is behind the head than it names"
        return kind, content

    def ready(self) -> Process:
        """Waits until init() is over."""
        kind, content = self.receive()
        assert kind == "Ready", (kind, content)
        assert content[0] >= 0
        self.run_frame = None if content[1] is None else Frame(*content[1])
        self.concurrency = content[2]
        return self

    def init_failed(self) -> Error:
        """Waits for the refusal of the script; the process ends by itself after it."""
        kind, content = self.receive()
        assert kind == "InitFailed", (kind, content)
        assert self.wait() == 1
        content, self.is_permanent = content
        error = Error.of(content)
        assert error is not None
        return error

    def hand_over(
        self,
        *work: dict[str, Any],
        grant: int | None = None,
        retry_count: int = 0,
        keys: bytes = b"",
        index: int | None = None,
        part: tuple[int, int] | None = None,
    ) -> list[int]:
        """Sends mini-batches in one frame; returns their numbers. All have the packed `keys`, and this
        `index` and `part` where they are given."""
        assigned, descriptors = [], []
        for one in work:
            self._seq += 1
            head = ["Local", self._seq - 1 if index is None else index, 0, *([keys] if keys else [])]
            descriptor = msgpack.packb(head) + msgpack.packb(one)
            assigned.append([self._seq, retry_count, len(descriptor), part])
            descriptors.append(descriptor)
        self.page.grant(self._seq if grant is None else grant)
        self.send({"Run": assigned}, b"".join(descriptors))
        return [one[0] for one in assigned]

    def outcome(self) -> Outcome:
        """The next outcome."""
        while not self._backlog:
            kind, content = self.receive()
            if kind == "Outcomes":
                self._backlog.extend(Outcome.of(one) for one in content)
            elif kind == "Notice":
                self.notices.append(content)
            elif kind == "Skipped":
                self.skipped.extend(content)
            else:
                raise AssertionError((kind, content))
        return self._backlog.pop(0)

    def run(self, *work: dict[str, Any]) -> Outcome:
        """Runs mini-batches and returns the outcome of the last."""
        outcomes = [self.outcome() for _ in self.hand_over(*(work or (files("a", "b"),)))]
        return outcomes[-1]

    def shutdown(self) -> Error | None:
        """Ends the process in order; returns what shutdown() raised."""
        self.send("Shutdown")
        kind, content = self.receive()
        assert kind == "Bye", (kind, content)
        assert self.wait() == 0, self.stderr
        return Error.of(content)

    def wait(self) -> int:
        return self.popen.wait(DEADLINE)

    def close(self) -> None:
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait(DEADLINE)
        self.socket.close()
        os.close(self.page.descriptor)


def eventually(condition: Any, what: str) -> None:
    """Waits for a condition, with a deadline."""
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {DEADLINE} s"
        time.sleep(0.005)
