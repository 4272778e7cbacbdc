"""`mini_batch_context`: what `run()` may know of the mini-batch it was given (spec E5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable


@dataclass(unsafe_hash=True)
class Dataset:
    """The input a mini-batch comes from, as the job file has it."""

    __slots__ = ("name", "path", "type")

    name: str
    type: str
    path: str


class MiniBatchContext:
    """Which mini-batch it is, how often it failed before, and which input it comes from."""

    __slots__ = (
        "_items",
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
    ) -> None:
        self.minibatch_index = minibatch_index
        self.mini_batch_id = mini_batch_id
        self.retry_count = retry_count
        self.dataset = dataset
        self.partition_key_value: dict[str, Any] = {}
        self._items = items

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
        return {name: getattr(self, name.lstrip("_")) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return (
            f"MiniBatchContext(minibatch_index={self.minibatch_index}, mini_batch_id={self.mini_batch_id!r}, "
            f"retry_count={self.retry_count}, dataset_name={self.dataset_name!r})"
        )
