"""The entry script of a job that is one command: `/bin/bash -c` in a copy of the job's code. A command that
is too long for an argument is a file that bash runs.

The pieces of the command are the arguments of the script that begin with a letter and a colon: `t:` text
as it is written, the others values, by the place where they stand (outside quotes, in double, single or
`$'` quotes). A value is never a part of the text: it becomes a variable of the shell, and the text names
that. So it is one word, or a part of one, whatever it holds, and bash runs nothing of it. Standard output
and standard error are those of the process.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys

from azureml_user.parallel_run.errors import ScriptError

_TEXT = "t"
# How a variable is named at each place.
_REFERENCES = {"o": '"${%s}"', "d": "${%s}", "s": "'\"${%s}\"'", "e": "'\"${%s}\"$'"}
# Bytes of an argument, with its NUL, that Linux takes.
_LONGEST_ARGUMENT = 128 << 10
# What of standard error a failure shows.
_LAST_LINES = 20
_LAST_BYTES = 16 << 10


def assemble(pieces: list[str]) -> str:
    """The command of which these are the pieces, behind the variables that have its values."""
    variables, texts = [], []
    for piece in pieces:
        kind, value = piece[0], piece[2:]
        if kind == _TEXT:
            texts.append(value)
            continue
        name = f"_prs_{len(variables)}"
        variables.append(f"{name}={shlex.quote(value)}\n")
        texts.append(_REFERENCES[kind] % name)
    return "".join(variables + texts)


def run(mini_batch: list[str]) -> list[str]:
    """Runs the command; its one item is done when the exit code is 0."""
    pieces = [word for word in sys.argv[1:] if word[:1] in (_TEXT, *_REFERENCES) and word[1:2] == ":"]
    folder = os.path.join(os.getcwd(), "code")
    code = sys.path[0]
    if os.path.isdir(code):
        # A command may write beside its code, which others of the host share.
        shutil.copytree(code, folder, symlinks=True, dirs_exist_ok=True, copy_function=_copy)
    os.makedirs(folder, exist_ok=True)
    start = _size_of_stderr()
    ended = subprocess.run(
        ["/bin/bash", *_arguments(assemble(pieces), os.getcwd())],
        cwd=folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if ended.returncode != 0:
        # No line of Python is at fault.
        raise ScriptError("CommandFailed", _describe(ended.returncode, _last_lines(start)))
    return ["done"]


def _arguments(command: str, folder: str) -> list[str]:
    """What bash is given to run `command`; a file for a long one is in `folder`."""
    encoded = os.fsencode(command)
    if len(encoded) < _LONGEST_ARGUMENT:
        return ["-c", command]
    path = os.path.join(folder, "command.sh")
    with open(path, "wb") as file:
        file.write(encoded)
    return [path]


def _copy(source: str, target: str) -> str:
    shutil.copyfile(source, target)
    os.chmod(target, stat.S_IMODE(os.stat(source).st_mode) | stat.S_IWUSR)
    return target


def _environment() -> dict[str, str]:
    """That of the process; `python` is its own interpreter."""
    variables = dict(os.environ)
    own = os.path.dirname(sys.executable)
    variables["PATH"] = os.pathsep.join([own, variables.get("PATH") or os.defpath])
    return variables


def _describe(code: int, last_lines: list[str]) -> str:
    if code < 0:
        try:
            how = f"the command was ended by {signal.Signals(-code).name}"
        except ValueError:
            how = f"the command was ended by signal {-code}"
    else:
        how = f"the command ended with exit code {code}"
    if not last_lines:
        return f"{how}; it wrote nothing to standard error"
    # The first line is what lists and summaries show.
    return "\n".join([f"{how}: {last_lines[-1]}", "its standard error ended with:", *last_lines])


def _size_of_stderr() -> int | None:
    """How long the log is that standard error goes to; nothing where it is no file."""
    status = os.fstat(2)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _last_lines(start: int | None) -> list[str]:
    """What was written to standard error last, behind `start`."""
    if start is None:
        return []
    try:
        with open("/proc/self/fd/2", "rb") as log:
            end = os.fstat(2).st_size
            log.seek(max(start, end - _LAST_BYTES))
            text = log.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-_LAST_LINES:]
