"""Words for an exception of the script: category, message, traceback, and the line that it comes from.

Nothing an exception does while it is described may harm the process: its `__str__` may raise, return
something else or be endless. Frames of this package are left out of the traceback; they say nothing about the
script.
"""

from __future__ import annotations

import inspect
import linecache
import os
import traceback
from types import TracebackType
from typing import Any, Callable, Optional

_LIMIT = 64 * 1024
_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep

# File, line, function and text of a line of the user's code.
Frame = tuple[str, int, str, str]
Description = tuple[str, str, str, Optional[Frame]]
_LONGEST_LINE = 200


class ScriptError(Exception):
    """The entry script cannot be used, for a reason no exception of its own stands for.

    `category` is the class of exception that comes nearest, `traceback` that of an exception behind it.
    """

    def __init__(self, category: str, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.category = category
        self.traceback = traceback


def describe(error: BaseException, place: str, code_dir: str = "") -> Description:
    """Category (class of the exception), message (never empty) and traceback of `error`, and the last line of
    the code below `code_dir` that was in it.

    `place` is what was being done, such as `run()`.
    """
    if isinstance(error, ScriptError):
        return error.category, str(error), error.traceback, None
    category = _category(error)
    message = clean(_message(error, category, place))
    return category, message, clean(_traceback(error, category)), _last_frame(error, code_dir)


def frame_of(function: Callable[..., Any]) -> Frame | None:
    """Where `function` begins."""
    try:
        code = inspect.unwrap(function).__code__
        if code.co_filename.startswith(_OWN_FOLDER):
            # A script of prs itself is nobody's to mend.
            return None
        return _frame(code.co_filename, code.co_firstlineno, code.co_name)
    except BaseException:
        # Built in another language, or an object that is called.
        return None


def _last_frame(error: BaseException, code_dir: str) -> Frame | None:
    try:
        if isinstance(error, SyntaxError) and error.filename and _is_below(code_dir, error.filename):
            return _frame(error.filename, error.lineno or 1, "<module>")
        last = None
        frames = error.__traceback__
        while frames is not None:
            code = frames.tb_frame.f_code
            if _is_below(code_dir, code.co_filename):
                last = code.co_filename, frames.tb_lineno, code.co_name
            frames = frames.tb_next
        return _frame(*last) if last is not None else None
    except BaseException:
        return None


def _is_below(code_dir: str, file: str) -> bool:
    """Whether `file` is the user's own: packages that lie beside the script are not."""
    return bool(code_dir) and file.startswith(os.path.join(code_dir, "")) and "/site-packages/" not in file


def _frame(file: str, line: int, function: str) -> Frame:
    source = linecache.getline(file, line).strip()[:_LONGEST_LINE]
    return clean(file), line, "" if function == "<module>" else clean(function), clean(source)


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


def clean(text: str) -> str:
    """Valid UTF-8 of bounded length; what is cut is the middle."""
    if len(text) > _LIMIT:
        half = _LIMIT // 2
        text = f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
