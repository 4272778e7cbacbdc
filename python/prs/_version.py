"""The version of this package: that of the wheel it came with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str | None:
    try:
        return version("prs-run")
    except PackageNotFoundError:
        # It is imported from its sources.
        return None


__version__: str | None = _installed()
