"""What goes along with a job to a server: its code, and files of this machine that it names.

Job files have many forms, and ignore files their rules. Neither is read here: the server says which local
paths a job leads to and what an ignore file keeps out, and this packs it. So what a job is made of is the
same for a program, a server and this package."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prs import program
from prs.errors import ProgramMismatch, PrsError, UsageError
from prs.server.connection import Connection, Document
from prs.server.files import Bundle, data_at, is_exact, size_of

# Texts that a job file refers to are read by the server, to see what they refer to: so large, bytes, one and
# all.
_TEXT = 256 << 10
_TEXTS = 700 << 10
# How often a job file leads to a text that leads to another one.
_DEPTH = 8
# Names in a question about an ignore file.
_NAMES = 5000
# Files whose text may name others.
_ARCHIVES = (".tar.gz", ".tgz", ".zip")
_LEADS_ON = (".yml", ".yaml", ".txt", ".in", ".json", ".toml")
_TABLE = "MLTable"


@dataclass(frozen=True)
class JobFile:
    """A job as it is handed in: its text, or its keys, the folder that its relative paths begin in, the
    settings beside it, and what messages call it."""

    text: str | None
    document: dict[str, Any] | None
    folder: Path
    settings: Mapping[str, Any]
    shown: str

    def as_sent(self) -> str:
        """The text for the server."""
        if self.text is not None:
            return self.text
        return Document.of(self.document, program.plain).text.decode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Rules:
    """What is code, as the server says it."""

    never_code: frozenset[str]
    environment_marks: Sequence[str]
    ignore_files: Sequence[str]
    most_bytes: int
    most_files: int


@dataclass(frozen=True)
class LocalPath:
    """A path of this machine that a job leads to."""

    path: str
    key: str
    line: int | None
    input: str | None
    is_code: bool


@dataclass
class Packed:
    """What goes along. `code` has the files, `below` is where the job file would stand among them; `inputs`
    are files for inputs, each with its name and the name that it has there. `source` is the folder of code,
    where there is one alone."""

    job: JobFile
    code: Bundle | None = None
    below: str = ""
    inputs: list[tuple[str, str, Path | Bundle]] = field(default_factory=list)
    source: Path | None = None

    @property
    def size(self) -> int:
        """Bytes of all that goes along."""
        inputs = (size_of(body) if isinstance(body, Path) else body.size for _, _, body in self.inputs)
        return (self.code.size if self.code else 0) + sum(inputs)


class Packer:
    """Packs for one server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rules: Rules | None = None

    def job(self, job: JobFile) -> Packed:
        """What goes along with a job, and the job with the paths that it has there."""
        paths = self._local_paths(job)
        packed = Packed(job)
        plan = _Plan(job, paths)
        entries: dict[str, Path] = {}
        # Paths that lead above the job file need its folder.
        folders = [plan.below] if plan.below else []
        sources: list[Path] = []
        for one in plan.relative:
            place = plan.place_of(one.path)
            if one.is_code and place.is_dir():
                sources.append(place)
                self._add(entries, folders, plan.name_of(place), self._code(place))
            elif not one.is_code:
                base, files = data_at(place)
                self._add(entries, folders, plan.name_of(base), files, is_there=base.is_dir())
        for at, one in enumerate(plan.absolute):
            self._add_absolute(plan, packed, entries, folders, sources, at, one)
        self._check(entries)
        if entries or folders:
            packed.code, packed.below = Bundle.of(entries, folders), plan.below
        packed.job = JobFile(job.text, plan.document, job.folder, plan.settings, job.shown)
        packed.source = sources[0] if len(sources) == 1 else None
        return packed

    def code(self, folder: Path) -> Bundle:
        """A folder of code alone."""
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder: the code of a job is one")
        if self._rules is None:
            self._ask({"spec": {}, "set": {}, "files": {}}, None)
        entries = dict(self._code(folder))
        self._check(entries)
        return Bundle.of(entries)

    def _local_paths(self, job: JobFile) -> list[LocalPath]:
        """The paths that a job leads to, also those in components and other texts that it names."""
        asked: dict[str, Any] = {"set": {key: program.as_text(value) for key, value in job.settings.items()}}
        if job.document is None:
            asked["yaml"] = job.text
        else:
            asked["spec"] = job.document
        files: dict[str, str] = {}
        for _ in range(_DEPTH):
            found = self._ask({**asked, "files": files}, job.shown)
            more = {}
            for one in found:
                for name in (one.path, os.path.join(one.path, _TABLE)):
                    if not one.is_code and not os.path.isabs(name) and name not in files:
                        text = _text_that_leads_on(job.folder / name)
                        if text is not None:
                            more[name] = text
            files.update(more)
            if not more or sum(map(len, files.values())) > _TEXTS:
                break
        return found

    def _ask(self, asked: Mapping[str, Any], shown: str | None) -> list[LocalPath]:
        body = Document.of(asked, program.plain)
        try:
            record = self._connection.post("/api/v1/job-paths", body, shown=shown).record()
        except PrsError as error:
            if error.problem is not None and error.problem.type in ("not-found", "method-not-allowed"):
                raise ProgramMismatch(
                    f"the server {self._connection.address} is of an older version, which cannot say what "
                    "to send with a job: install prs-run of this version there"
                ) from None
            raise
        self._rules = Rules(
            frozenset(record["never_code"]),
            record["environment_marks"],
            record["ignore_files"],
            record["most_bytes"],
            record["most_files"],
        )
        fields = ("path", "key", "line", "input", "is_code")
        return [LocalPath(*(one[name] for name in fields)) for one in record["value"]]

    def _code(self, folder: Path) -> Iterator[tuple[str, Path]]:
        """The files of code in a folder, by their paths in it, and the ignore files, by which the server
        finds the same ones."""
        rules = self._rules
        assert rules is not None, "the server was asked before"
        ignore = next((name for name in rules.ignore_files if (folder / name).is_file()), None)
        text = None if ignore is None else (folder / ignore).read_text(encoding="utf-8-sig", errors="replace")
        for name in rules.ignore_files:
            if (folder / name).is_file():
                yield name, folder / name
        level = [("", folder, frozenset([os.path.realpath(folder)]))]
        while level:
            found: dict[str, tuple[Path, frozenset[str]]] = {}
            for below, path, above in level:
                for name in sorted(os.listdir(path)):
                    if name in rules.never_code or (not below and name in rules.ignore_files):
                        continue
                    one = path / name
                    if one.is_dir():
                        if not any((one / mark).exists() for mark in rules.environment_marks):
                            found[f"{below}{name}/"] = (one, above)
                    else:
                        found[below + name] = (one, above)
            if ignore is not None and found:
                for name in self._kept_out(ignore, text or "", list(found)):
                    found.pop(name, None)
            level = []
            for name, (one, above) in found.items():
                if not name.endswith("/"):
                    yield name, one
                    continue
                real = os.path.realpath(one)
                if real in above:
                    raise UsageError(
                        f"{one}: the link leads back to a folder that it is in; keep it out with "
                        f"{ignore or rules.ignore_files[0]}"
                    )
                level.append((name, one, above | {real}))

    def _kept_out(self, ignore: str, text: str, paths: list[str]) -> Iterator[str]:
        for at in range(0, len(paths), _NAMES):
            asked = {"ignore_file": ignore, "text": text, "paths": paths[at : at + _NAMES]}
            answer = self._connection.post("/api/v1/kept-out", Document.of(asked), shown=ignore)
            yield from answer.record()["kept_out"]

    def _add(
        self,
        entries: dict[str, Path],
        folders: list[str],
        name: str,
        files: Iterator[tuple[str, Path]],
        is_there: bool = True,
    ) -> None:
        """Adds files below `name` of the archive."""
        if is_there and name:
            folders.append(name)
        for below, path in files:
            entries["/".join(part for part in (name, below) if part)] = path
            self._check(entries, counts_only=True)

    def _add_absolute(
        self,
        plan: _Plan,
        packed: Packed,
        entries: dict[str, Path],
        folders: list[str],
        sources: list[Path],
        at: int,
        one: LocalPath,
    ) -> None:
        """A path that does not begin at the job file: of a mapping it gets a place in the archive, of a job
        file it is sent as the input that it is."""
        place = Path(one.path)
        base, files = data_at(place)
        if not base.exists():
            # The server knows what to say of it.
            return
        if not plan.may_rewrite(one.path):
            if one.input is None or (base != place and not is_exact(one.path)):
                where = f"{packed.job.shown}:{one.line}" if one.line is not None else packed.job.shown
                raise UsageError(
                    f"{where}: {one.key or 'a path'}: {one.path} is absolute, and a server has other "
                    "folders: give a path that begins at the job file, or hand the job in as a mapping"
                )
            if place.is_file() and not place.name.endswith(_ARCHIVES):
                packed.inputs.append((one.input, place.name, place))
                return
            of_input = {below or place.name: path for below, path in files}
            self._check(of_input)
            packed.inputs.append((one.input, f"{one.input}.tar.gz", Bundle.of(of_input)))
            return
        name = f"sent/{at}/{base.name or 'all'}"
        if one.is_code and place.is_dir():
            sources.append(place)
            files = self._code(place)
        self._add(entries, folders, name, files, is_there=base.is_dir())
        tail = "" if base == place else "/" + place.relative_to(base).as_posix()
        plan.rewrite(one.path, name + tail)

    def _check(self, entries: Mapping[str, Path], counts_only: bool = False) -> None:
        """Refuses what the server would, before it is packed and sent."""
        rules = self._rules
        assert rules is not None, "the server was asked before"
        if len(entries) > rules.most_files:
            raise UsageError(_too_large(entries, rules, "names"))
        if not counts_only and sum(map(size_of, entries.values())) > rules.most_bytes:
            raise UsageError(_too_large(entries, rules, "bytes"))


class _Plan:
    """Where files of a job are in its archive: so that each relative path leads to the same file there as
    here."""

    def __init__(self, job: JobFile, paths: Sequence[LocalPath]) -> None:
        self.relative = [one for one in paths if not os.path.isabs(one.path)]
        self.absolute = [one for one in paths if os.path.isabs(one.path)]
        self.document = job.document
        self.settings = job.settings
        self._folder = Path(os.path.normpath(job.folder))
        ups = [_ups(one.path) for one in self.relative]
        up = max(ups, default=0)
        self._top = Path(*self._folder.parts[: max(1, len(self._folder.parts) - up)])
        # What comes from elsewhere is beside that, and so in no folder of code.
        self._prefix = ["job"] if self.absolute else []
        self.below = "/".join([*self._prefix, *self._folder.relative_to(self._top).parts])

    def place_of(self, path: str) -> Path:
        """The file here."""
        return Path(os.path.normpath(self._folder / path))

    def name_of(self, place: Path) -> str:
        """Its name in the archive; empty for the top."""
        name = os.path.relpath(place, self._top).replace(os.sep, "/")
        if name == ".." or name.startswith("../"):
            raise UsageError(f"{place} is above the folder that the job begins in, further than can be sent")
        return "/".join([*self._prefix, *([] if name == "." else [name])])

    def may_rewrite(self, path: str) -> bool:
        """Whether the place of a path can be told: in a mapping, or a setting, and not in the text of a job
        file."""
        return self.document is not None or _replaced(self.settings, path, "") != dict(self.settings)

    def rewrite(self, path: str, name: str) -> None:
        """Has the document and the settings name a place of the archive."""
        place = "/".join([*([".."] * len(Path(self.below).parts)), name])
        self.document = _replaced(self.document, path, place)
        self.settings = _replaced(self.settings, path, place)


def _replaced(value: Any, path: str, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _replaced(one, path, name) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(one, path, name) for one in value]
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        is_it = (
            isinstance(text, str) and os.path.isabs(text) and os.path.normpath(text) == os.path.normpath(path)
        )
        return name if is_it else value
    return value


def _ups(path: str) -> int:
    """How far a path leads above where it begins."""
    depth = least = 0
    for part in Path(path).parts:
        depth += -1 if part == ".." else 1
        least = min(least, depth)
    return -least


def _text_that_leads_on(path: Path) -> str | None:
    """The text of a file that may name others."""
    if path.name != _TABLE and path.suffix.lower() not in _LEADS_ON:
        return None
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if path.is_file() and path.stat().st_size <= _TEXT:
            return path.read_text(encoding="utf-8")
    return None


def _too_large(entries: Mapping[str, Path], rules: Rules, what: str) -> str:
    sizes: dict[str, int] = {}
    for name, path in entries.items():
        part = name.split("/", 1)[0] + ("/" if "/" in name else "")
        sizes[part] = sizes.get(part, 0) + size_of(path)
    biggest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    named = ", ".join(f"{name} {sizes[name] >> 20} MiB" for name in biggest)
    most = f"{rules.most_bytes >> 20} MiB" if what == "bytes" else f"{rules.most_files:,} files"
    return (
        f"what goes along with the job is more than {most} ({named}): keep out of the code what is none "
        f"with {rules.ignore_files[0]}, and give large inputs as s3:// or https:// URLs, or as folders "
        "that the server shares (prs serve --allow-path)"
    )
