"""DataFrames that `run()` returned, as the text `to_csv` writes (spec E8).

Most columns are handed to the extension as Arrow arrays, which writes them in a fraction of the time;
whatever it does not write exactly as pandas does is left to pandas. The header line is kept apart from the
rows: it is written once into the result, not once for every mini-batch.
"""

from __future__ import annotations

import csv
import io
from typing import Any

# sep, na_rep, whether a lone carriage return is quoted, from where a float32 has an exponent.
FastOptions = tuple[str, str, bool, float]

# Earlier pandas writes a year before 1000 with as many digits as it has.
_PADS_YEARS = 3
_EARLIEST = "1677-09-22"
_FAST_ARGUMENTS = frozenset(["sep", "na_rep", "header", "index"])
# Arguments that change where quotes stand.
_OF_QUOTES = frozenset(["quoting", "quotechar", "doublequote", "escapechar"])
# Earlier pandas writes the name of the argument in two words.
_ONE_WORD = (1, 5)


def _quotes_returns() -> bool:
    """Whether this Python quotes a lone carriage return in CSV."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerow(["a\rb"])
    return '"' in written.getvalue()


class Tables:
    """Writes DataFrames as text, always with the same arguments of `to_csv`.

    `is_csv` is true where the result is to be read as CSV: then a field with a lone carriage return is quoted
    whatever this version of Python does.
    """

    def __init__(self, arguments: dict[str, Any], is_csv: bool = False) -> None:
        self._rows = {**arguments, "header": False}
        header = arguments["header"]
        self.has_header = isinstance(header, list) or bool(header)
        self._header = arguments
        self._is_csv = is_csv
        self._pyarrow: Any | None = None

    def header(self, table: Any) -> str | None:
        """The header of `table`, with its line end, as pandas writes it; `None` for one without columns."""
        return self._written(table.iloc[:0], self._header) if table.shape[1] else None

    def names(self, table: Any) -> list[str] | None:
        """The names of the columns; `None` when pandas has to make a header of them."""
        names = table.columns.tolist()
        is_plain = self._header["header"] is True and names and all(type(name) is str for name in names)
        return names if is_plain else None

    def text(self, table: Any) -> str:
        """The rows as pandas writes them."""
        return self._written(table, self._rows)

    def _written(self, table: Any, arguments: dict[str, Any]) -> str:
        text: str = table.to_csv(**arguments)
        if not self._is_csv or "\r" not in text or _OF_QUOTES & set(arguments) or _quotes_returns():
            return text
        # Python before 3.11.9 quotes a carriage return where lines end with one.
        import pandas

        version = tuple(int(part) for part in pandas.__version__.split(".")[:2])
        name = "lineterminator" if version >= _ONE_WORD else "line_terminator"
        parts: list[str] = table.to_csv(**arguments, **{name: "\r\n"}).split('"')
        # Every other part is inside of quotes.
        parts[::2] = [part.replace("\r\n", "\n") for part in parts[::2]]
        return '"'.join(parts)

    def fast_options(self) -> FastOptions | None:
        """How the extension is to write; `None` when it cannot."""
        sep, na_rep = self._rows["sep"], self._rows.get("na_rep", "")
        is_plain = isinstance(sep, str) and len(sep) == 1 and sep.isascii() and isinstance(na_rep, str)
        if not is_plain or self._rows["index"] is not False or set(self._rows) - _FAST_ARGUMENTS:
            return None
        try:
            import numpy
            import pyarrow
        except ImportError:
            return None
        self._pyarrow = pyarrow
        million = numpy.array([1e6], dtype="float32").astype(object).astype(str)[0]
        return sep, na_rep, self._is_csv or _quotes_returns(), 1e6 if "e" in million else 1e16

    def columns(self, table: Any) -> list[Any] | None:
        """The columns as Arrow arrays; `None` when one of them is for pandas to write."""
        import pandas

        if type(table) is not pandas.DataFrame or table.shape[1] == 0:
            return None
        try:
            arrays = [self._array(column) for _, column in table.items()]
        except (TypeError, ValueError, OverflowError, NotImplementedError, UnicodeError):
            # pyarrow cannot hold what is in an object column.
            return None
        return None if any(array is None for array in arrays) else arrays

    def _array(self, column: Any) -> Any | None:
        import pandas

        pyarrow, dtype = self._pyarrow, column.dtype
        if isinstance(dtype, pandas.StringDtype):
            array = pyarrow.array(column.array, from_pandas=True)
        elif not hasattr(dtype, "kind") or dtype.kind not in "biufMO" or not hasattr(dtype, "newbyteorder"):
            # Neither a dtype of numpy's nor text: categories, periods, time zones, masked arrays, ...
            return None
        elif dtype.kind == "O":
            array = pyarrow.array(column.to_numpy(), from_pandas=True)
            if pyarrow.types.is_null(array.type):
                array = array.cast(pyarrow.string())
            if not pyarrow.types.is_string(array.type) and not pyarrow.types.is_large_string(array.type):
                return None
        elif dtype.kind == "M":
            if int(pandas.__version__.split(".")[0]) < _PADS_YEARS and column.min() < pandas.Timestamp(
                _EARLIEST
            ):
                return None
            array = pyarrow.array(column.to_numpy(), from_pandas=True)
        else:
            array = pyarrow.array(column.to_numpy(), from_pandas=False)
        return array.combine_chunks() if isinstance(array, pyarrow.ChunkedArray) else array
