"""`mini_batch_context`: what `run()` may know of the mini-batch it was given (spec E5)."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Callable, Union

from azureml_user.parallel_run import folders


@dataclass(unsafe_hash=True)
class Dataset:
    """The input a mini-batch comes from, as the job file has it."""

    __slots__ = ("name", "path", "type")

    name: str
    type: str
    path: str


# Text, a time in nanoseconds since 1970, or, in a tuple, a key from the data as `shuffle_keys` has it.
Key = Union[str, int, tuple[str]]


def _values(keys: list[tuple[str, Key]]) -> dict[str, Any]:
    """What the data of a mini-batch has in common."""
    return {name: _value(value) for name, value in keys}


def _value(key: Key) -> Any:
    if isinstance(key, tuple):
        from azureml_user.parallel_run import shuffle_keys

        return shuffle_keys.decoded(key[0])
    return _time(key) if isinstance(key, int) else key


def _time(nanoseconds: int) -> Any:
    """A `pandas.Timestamp`; the `datetime` that it is a kind of where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return datetime(1970, 1, 1) + timedelta(microseconds=nanoseconds // 1000)
    return pandas.Timestamp(nanoseconds)


class MiniBatchContext:
    """Which mini-batch it is, how often it failed before, and which input it comes from."""

    __slots__ = (
        "_items",
        "_output_dir",
        "dataset",
        "mini_batch_id",
        "minibatch_index",
        "partition_key_value",
        "retry_count",
    )

    def __init__(
        self,
        minibatch_index: int,
        mini_batch_id: str,
        retry_count: int,
        dataset: Dataset,
        items: list[str] | Callable[[], list[str]],
        keys: list[tuple[str, Key]] | None = None,
        output_dir: str | None = None,
    ) -> None:
        self.minibatch_index = minibatch_index
        self.mini_batch_id = mini_batch_id
        self.retry_count = retry_count
        self.dataset = dataset
        self.partition_key_value: dict[str, Any] = {} if keys is None else _values(keys)
        self._items = items
        self._output_dir = output_dir

    @property
    def output_dir(self) -> str:
        """Files written below it belong to the output of the job, once the mini-batch is finished; it exists.

        Where a process has several mini-batches under way, each has a folder of its own, else it is
        `EntryScript().output_dir`.
        """
        if self._output_dir is None:
            from azureml_user.parallel_run.entry_script import EntryScript

            return EntryScript().output_dir
        folders.make(self._output_dir)
        return self._output_dir

    @property
    def dataset_name(self) -> str:
        """Name of the input in the job file."""
        return self.dataset.name

    @property
    def items(self) -> list[str]:
        """Names of the items, in the order of the mini-batch: what rows are best told apart by, for they are
        the same on every host and in every run.

        A file of a folder or a bucket has its path below that, one that a list names its whole name. Rows of
        a table have one name, that of their file. They are made when they are first asked for.
        """
        if callable(self._items):
            self._items = self._items()
        return self._items

    def __getstate__(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in self.__slots__}
        return {**state, "_items": self.items}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return (
            f"MiniBatchContext(minibatch_index={self.minibatch_index}, mini_batch_id={self.mini_batch_id!r}, "
            f"retry_count={self.retry_count}, dataset_name={self.dataset_name!r})"
        )


# The mini-batch that code runs for, where a process has several under way.
current: ContextVar[MiniBatchContext | None] = ContextVar("prs_mini_batch", default=None)
