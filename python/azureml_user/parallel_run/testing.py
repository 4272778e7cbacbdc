"""A mini-batch of a job in a test: what `prs try --pytest` prints is made of this.

The data is read as in a process of a job, by the same code, and `run()` is called in the test's own process,
so that any debugger and any assertion serves.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from azureml_user.parallel_run import context, frames, results, script, settings, streaming, tables
from azureml_user.parallel_run.concurrent import EventLoop
from azureml_user.parallel_run.entry_script import EntryScript

# Where the bytes of a slice are put; the descriptors that are printed name it.
_SLICE = "slice"
# How long a script that streams may take for a mini-batch, seconds.
_PATIENCE = 60


class Job:
    """An entry script as a process of its job has it: imported, with its arguments, after `init()`.

    `inputs` are name, kind and path of each input; what the script writes goes below `folder`.
    """

    def __init__(
        self,
        source_directory: str,
        entry_script: str,
        *,
        folder: Path,
        inputs: Sequence[tuple[str, str, str]],
        arguments: Sequence[str] = (),
    ) -> None:
        _note_use(source_directory)
        output = folder / "output"
        EntryScript()._configure(
            agent_name="process000",
            node_id=0,
            logging_level="INFO",
            log_dir=str(folder / "logs"),
            working_dir=str(folder / "working"),
            output_dir=str(output),
            has_terminal=True,
        )
        sys.argv = [os.path.join(source_directory, entry_script), "--output", str(output), *arguments]
        self._inputs = [context.Dataset(name, kind, path) for name, kind, path in inputs]
        self._script = script.load(source_directory, entry_script, settings.streams(arguments))
        self._loop = EventLoop() if self._script.is_async else None
        if self._script.init is not None:
            self._call(self._script.init, script.is_pending)

    def run(
        self,
        mini_batch: Any,
        minibatch_index: int,
        input: int = 0,
        items: Sequence[str] = (),
        keys: Sequence[tuple[str, context.Key]] = (),
    ) -> Any:
        """What `run()` returns for `mini_batch`, whose items have these names in its context, and whose
        partition keys these values, times as nanoseconds since 1970; what an async one gives, and the result
        that a script gives that streams."""
        name = f"mb-{minibatch_index:010}"
        dataset = self._inputs[input]
        about = context.MiniBatchContext(minibatch_index, name, 0, dataset, list(items), list(keys))
        arguments = (mini_batch, about) if self._script.takes_context else (mini_batch,)
        if self._script.streaming is not None:
            streaming.refuse_pending(self._script.run(*arguments))
            return self._result_of(name)
        return self._call(self._script.run, script.is_awaited, *arguments)

    def _call(self, function: Callable[..., Any], is_awaited: Callable[[Any], bool], *arguments: Any) -> Any:
        result = function(*arguments)
        if not is_awaited(result):
            return result
        if self._loop is None:
            self._loop = EventLoop()
        return self._loop.result_of(result)

    def _result_of(self, name: str) -> Any:
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            for one in streaming.entries(self._script.streaming.get_finished_batch_result()):
                if one.mini_batch_id == name:
                    if one.exception is not None:
                        raise one.exception
                    return one.result
            time.sleep(0.01)
        raise TimeoutError(f"get_finished_batch_result() has no result of {name} after {_PATIENCE} s")


def files(contents: Mapping[str, str | bytes], folder: Path) -> list[str]:
    """Files below `folder` with these contents, by their paths: a mini-batch of files."""
    paths = []
    for name, content in contents.items():
        path = folder / "inputs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_bytes(content))
        paths.append(str(path))
    return paths


def content(path: str) -> bytes:
    """The bytes of a file beside the test: data that `prs try --pytest --data` put there."""
    with open(path, "rb") as file:
        return file.read()


def place_model(path: str, folder: Path, monkeypatch: Any) -> None:
    """Lets the script find the model at `path` as a process of its job does; `monkeypatch` is pytest's."""
    own = folder / "model"
    own.mkdir()
    link = own / os.path.basename(path)
    link.symlink_to(path)
    monkeypatch.setenv("AZUREML_MODEL_DIR", str(own))
    by_name = folder / "models.json"
    by_name.write_text(json.dumps({link.name: str(link), link.stem: str(link)}))
    monkeypatch.setenv("PRS_MODELS", str(by_name))


def rows(descriptor: str, content: str | bytes, start: int, folder: Path) -> Any:
    """The DataFrame of a slice of a table, from its bytes, which begin at `start` of their file, and its
    descriptor in hexadecimal."""
    return row_groups(descriptor, {start: content}, folder)


def row_groups(descriptor: str, parts: Mapping[int, str | bytes], folder: Path) -> Any:
    """The same, from parts of its file by where these begin, as Parquet has them."""
    import prs_process

    with open(folder / _SLICE, "wb") as file:
        for start, content in parts.items():
            file.seek(start)
            file.write(_bytes(content))
    return prs_process.Slices(frames.Frames(), str(folder)).read(bytes.fromhex(descriptor))


def table(
    work: str, origin: str, frame: Any, first_record: int = 0, taken: tuple[int, int] | None = None
) -> Any:
    """What an MLTable has done with a slice of the file `origin`, whose first row has this number in it.
    Where the table counts rows behind a filter, `taken` are those of the slice that it takes."""
    from azureml_user.parallel_run.table_work import TableWork

    done = TableWork(work, frames.Frames().text).do(frame, origin, first_record, taken)
    if isinstance(done, str):
        raise ValueError(done)
    return done[0]


def count(result: Any) -> int:
    """How many elements `run()` returned; refuses what it may not return."""
    elements = results.Results(tables.Tables({"header": False})).elements(result)
    return len(result) if elements is None else sum(1 for _ in elements)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _note_use(source_directory: str) -> None:
    """Keeps the code of a former job, which prs unpacked in its cache, for another week."""
    if not re.fullmatch("code-[0-9a-f]{64}", os.path.basename(source_directory)):
        return
    if not os.path.isdir(source_directory):
        raise FileNotFoundError(
            f"{source_directory} is gone, as code is that was not used for a week: "
            "prs try --pytest --code old brings it back, and prints this test again"
        )
    with contextlib.suppress(OSError):
        os.utime(source_directory)
