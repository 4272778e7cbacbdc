"""Where a server is, and what a caller shows it: arguments, variables, or the file of a server of this user.

A server of this machine writes its URL and the secret of its start into a file that its user alone can read
(docs/server.md): programs of that user need neither. A token is sent to the server that it was given for and
to no other: that of the variable `PRS_TOKEN` belongs to the server of `PRS_SERVER`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from prs.errors import UsageError

URL_VARIABLE = "PRS_SERVER"
TOKEN_VARIABLE = "PRS_TOKEN"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Address:
    """The address of a server. `path` is what stands before `/api`, behind a proxy."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @classmethod
    def of(cls, url: str) -> Address:
        """Reads a URL; one that has a password is refused, and not repeated."""
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError:
            raise UsageError(
                "the URL of the server cannot be read: give one such as https://host:8470"
            ) from None
        if parts.username is not None or parts.password is not None:
            raise UsageError(
                f"the URL of a server has no password: give the token as token, or in {TOKEN_VARIABLE}"
            )
        if parts.scheme not in _PORTS or not parts.hostname:
            raise UsageError(f"{url!r} is no URL of a server: give one such as https://host:8470")
        if parts.query or parts.fragment:
            raise UsageError(f"{parts.scheme}://{parts.netloc}: the URL of a server has neither ? nor #")
        return cls(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], parts.path.rstrip("/"))

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return False

    @property
    def origin(self) -> str:
        """The URL without its path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    def __str__(self) -> str:
        return self.origin + self.path


@dataclass
class Credentials:
    """The token for a server; `None` where there is none, as for one of `--auth none`. Where it is that of a
    file, a server that was started anew has another one."""

    token: str | None = field(repr=False)
    file: Path | None = None

    def renewed(self) -> bool:
        """Reads the file again; says whether it has another token now."""
        found = None if self.file is None else _read(self.file)
        if found is None or found[1] == self.token:
            return False
        self.token = found[1]
        return True


def find(url: str | None, token: str | None) -> tuple[Address, Credentials]:
    """The server that a caller means: the one of `url`, of `PRS_SERVER`, or the only one of this user that
    runs on this machine; and the token for it."""
    named = os.environ.get(URL_VARIABLE) or None
    if url is None and named is None:
        address, credentials = _only_one()
        return address, credentials if token is None else Credentials(checked(token))
    address = Address.of(url if url is not None else named or "")
    if token is not None:
        return address, Credentials(checked(token))
    is_named = named is None or url is None or Address.of(named) == address
    variable = os.environ.get(TOKEN_VARIABLE)
    if variable and is_named and (named is not None or not address.is_loopback):
        return address, Credentials(checked(variable))
    if address.is_loopback:
        path = _folder() and _file(_folder(), address.port)
        found = None if path is None else _read(path)
        if found is not None:
            return address, Credentials(found[1], path)
        if variable and is_named:
            return address, Credentials(checked(variable))
    return address, Credentials(None)


def checked(token: str) -> str:
    """A token as a header has it. One that cannot be a token is refused, and not repeated."""
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError("the token is none: it is the one line that prs token create printed")
    return token


def _only_one() -> tuple[Address, Credentials]:
    folder = _folder()
    files = sorted(folder.glob("serve-*.json")) if folder is not None and folder.is_dir() else []
    found = {path: read for path in files if (read := _read(path)) is not None and _runs(read[2])}
    if not found:
        raise UsageError(
            f"no server is named, and none of yours runs on this machine: give its URL, or set {URL_VARIABLE}"
        )
    if len(found) > 1:
        urls = ", ".join(url for url, *_ in found.values())
        raise UsageError(f"several servers of yours run on this machine: give the URL of one ({urls})")
    ((path, (url, token, _)),) = found.items()
    return Address.of(url), Credentials(token, path)


def _folder() -> Path | None:
    """The folder that servers of this user say in where they are."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):
        return Path(runtime, "prs")
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(cache):
        return Path(cache, "prs")
    home = os.environ.get("HOME", "")
    return Path(home, ".cache/prs") if os.path.isabs(home) else None


def _file(folder: Path | None, port: int) -> Path | None:
    return None if folder is None else folder / f"serve-{port}.json"


def _read(path: Path) -> tuple[str, str, int] | None:
    """The URL, the token and the process of a server; `None` where there is no such file. One that others
    could have written is refused."""
    try:
        with open(path, encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            text = file.read()
    except OSError:
        return None
    if hasattr(os, "getuid") and (
        about.st_uid != os.getuid() or about.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ):
        raise UsageError(f"{path} is not yours alone, so it says nothing about a server of yours: remove it")
    try:
        told = json.loads(text)
        return str(told["url"]), checked(str(told["token"])), int(told["pid"])
    except (ValueError, KeyError, TypeError):
        return None


def _runs(pid: int) -> bool:
    """Whether a process of this number runs; one that was killed left its file."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
