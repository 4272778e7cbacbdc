"""Words for an exception of the script: category, message, traceback.

Nothing an exception does while it is described may harm the process: its `__str__` may raise, return
something else or be endless. Frames of this package are left out of the traceback; they say nothing about the
script.
"""

from __future__ import annotations

import os
import traceback
from types import TracebackType

_LIMIT = 64 * 1024
_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep

Description = tuple[str, str, str]


class ScriptError(Exception):
    """The entry script cannot be used, for a reason no exception of its own stands for.

    `category` is the class of exception that comes nearest.
    """

    def __init__(self, category: str, message: str) -> None:
        super().__init__(message)
        self.category = category


def describe(error: BaseException, place: str) -> Description:
    """Category (class of the exception), message (never empty) and traceback of `error`.

    `place` is what was being done, such as `run()`.
    """
    if isinstance(error, ScriptError):
        return error.category, str(error), ""
    category = _category(error)
    return category, _clean(_message(error, category, place)), _clean(_traceback(error, category))


def keeps_from_importing(error: BaseException) -> bool:
    """Whether importing the script would fail with `error` again, however often it is tried on this host."""
    return isinstance(error, (ScriptError, ImportError, SyntaxError))


def _category(error: BaseException) -> str:
    try:
        return str(type(error).__name__) or "Exception"
    except BaseException:
        return "Exception"


def _message(error: BaseException, category: str, place: str) -> str:
    if isinstance(error, SystemExit):
        return f"{place} called sys.exit({_text(error.code)})"
    text = _text(error)
    if isinstance(error, Exception):
        return text or f"{category} without a message"
    return f"{place} raised {category}: {text}" if text else f"{place} raised {category}"


def _text(value: object) -> str:
    try:
        return "" if value is None else str(value).strip()
    except BaseException as inner:
        return f"(its message cannot be shown: __str__ raised {_category(inner)})"


def _traceback(error: BaseException, category: str) -> str:
    try:
        frames = _own_frames_dropped(error.__traceback__)
        return "".join(traceback.format_exception(type(error), error, frames))
    except BaseException as inner:
        return f"{category} (its traceback cannot be shown: {_category(inner)})"


def _own_frames_dropped(frames: TracebackType | None) -> TracebackType | None:
    """Skips what lies before the first frame of the script."""
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        is_importing = file.startswith("<frozen ") or file.endswith(os.path.join("importlib", "__init__.py"))
        if not is_importing and not file.startswith(_OWN_FOLDER):
            break
        frames = frames.tb_next
    return frames


def _clean(text: str) -> str:
    """Valid UTF-8 of bounded length; what is cut is the middle."""
    if len(text) > _LIMIT:
        half = _LIMIT // 2
        text = f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
