"""Runs code for tests, each in a fork of this process, which has imported what takes long to import.

Standard input is a listening socket. A request is a line of JSON with `folder` and `code`. The answer is one
byte, 0 where the code ended well, and then its standard output, or else its standard error.
"""

import json
import os
import signal
import socket
import sys
import tempfile
import traceback
import types

import numpy  # noqa: F401
import pandas  # noqa: F401
import pyarrow.csv
import pyarrow.parquet  # noqa: F401


def execute(code):
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv = ["-c"]
    sys.path.insert(0, "")
    try:
        exec(compile(code, "<string>", "exec"), main.__dict__)
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def answer(connection):
    with connection.makefile("r", encoding="utf-8") as lines:
        request = json.loads(lines.readline())
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os.chdir(request["folder"])
            os._exit(execute(request["code"]))
        _, status = os.waitpid(child, 0)
        said = err if status else out
        said.seek(0)
        connection.sendall((b"\1" if status else b"\0") + said.read())


listener = socket.socket(fileno=os.dup(0))
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
# Nobody waits for the forks that answer.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    connection, _ = listener.accept()
    with connection:
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            answer(connection)
            os._exit(0)
