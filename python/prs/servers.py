"""Where jobs are: in a folder of this machine, or on a fleet. What of it the program is told, and how.
Jobs at a server of prs are no business of the program: `prs.server` has them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Union

_VARIABLES = {"broker": "PRS_BROKER_URL", "redis": "PRS_REDIS_URL", "storage": "PRS_STORAGE_URL"}


@dataclass(frozen=True)
class Fleet:
    """The servers of a fleet, as `prs --broker --redis --storage` takes them, or a `profile` of a
    configuration file (docs/commands.md). What is `None` is as the variables and the configuration say."""

    broker: str | None = None
    redis: str | None = None
    storage: str | None = None
    profile: str | None = None
    config: str | os.PathLike[str] | None = None

    def __repr__(self) -> str:
        # URLs have passwords.
        named = [f"{name}=..." for name in _VARIABLES if getattr(self, name) is not None]
        named += [
            f"{name}={value!r}"
            for name in ("profile", "config")
            if (value := getattr(self, name)) is not None
        ]
        return f"Fleet({', '.join(named)})"


# `None`: as variables and profiles say; `False`: this machine; a name: that profile.
FleetLike = Union[Fleet, str, bool, None]


@dataclass(frozen=True)
class Place:
    """Where commands look for jobs and run them."""

    fleet: FleetLike = None
    runs: Path | None = None
    # The current folder when it was named: relative paths, and configuration, start from there, wherever this
    # Python goes afterwards. `None` where there was none.
    here: Path | None = None

    @classmethod
    def of(cls, fleet: FleetLike, runs: str | os.PathLike[str] | None) -> Place:
        """Checks what a caller gave. `runs` is a folder, made absolute: the current one may change."""
        if fleet is True:
            raise TypeError(
                "fleet is a profile's name, a prs.Fleet, None (as variables and profiles say) or False"
            )
        here = None
        with contextlib.suppress(FileNotFoundError):
            here = Path.cwd()
        return cls(fleet, None if runs is None else Path(runs).absolute(), here)

    @property
    def folder(self) -> Path | None:
        """The current folder of a command; `None` for that of this Python."""
        return self.here if self.here is not None and self.here.is_dir() else None

    def of_job(self, runs: Path | None) -> Place:
        """The place of a job that is found or handed in here: `runs` is where it is on this machine, `None`
        where it is on a fleet. What variables and profiles say later does not move it."""
        return Place(self.fleet if runs is None else False, runs, self.here)

    def arguments(self, with_runs: bool = True) -> list[str]:
        """The options of a command. URLs are not among them: everybody on this host can read those."""
        found = [] if self.runs is None or not with_runs else ["--runs", str(self.runs)]
        if self.fleet is False:
            return [*found, "--local"]
        if isinstance(self.fleet, str):
            return [*found, "--profile", self.fleet]
        if isinstance(self.fleet, Fleet):
            found += [] if self.fleet.profile is None else ["--profile", self.fleet.profile]
            found += [] if self.fleet.config is None else ["--config", os.fspath(self.fleet.config)]
        return found

    def environment(self) -> dict[str, str]:
        """The variables of a command: those of this process, with the URLs, and with this interpreter for
        scripts of jobs that name none. The server that one of them may name is no place of the program."""
        variables = dict(os.environ)
        variables.pop("PRS_SERVER", None)
        if sys.prefix != sys.base_prefix:
            variables["VIRTUAL_ENV"] = sys.prefix
        if isinstance(self.fleet, Fleet):
            given = {
                _VARIABLES[name]: url for name in _VARIABLES if (url := getattr(self.fleet, name)) is not None
            }
            variables.update(given)
            if given and self.fleet.profile is None:
                # A profile in the surroundings comes after variables; its other servers would be mixed in.
                variables.pop("PRS_PROFILE", None)
        return variables

    def is_fleet(self, used: Mapping[str, object]) -> bool:
        """Whether jobs of this place run on a fleet; `used` is what `prs profiles` says is used."""
        return self.fleet is not False and any(used.get(name) is not None for name in _VARIABLES)
