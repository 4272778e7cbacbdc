"""What `run()` returned as rows of a Parquet file (`output_format: parquet`).

A DataFrame becomes an Arrow stream, compressed with zstd, as `pandas.to_parquet` makes a table of it, without
its index; its schema is the header that the orchestrator finds the types of the file by. The file itself is
made where the result is.
"""

from __future__ import annotations

import base64
import importlib.util
import json
from typing import Any

from azureml_user.parallel_run.errors import ScriptError

_OLDEST_PYARROW = 14
# A record batch of so many rows or bytes: the orchestrator has one in memory beside the whole frame, which is
# at most 2 GiB, and ends row groups behind one.
_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 8 << 20
# The categories of an ordered column as text, which says whether those of two mini-batches are the same.
_ORDER = b"prs:order"
# On a column without a value, which goes with any type.
_MISSING = b"prs:missing"
_REMEDY = "convert it in run(), or leave the column out"


class ParquetOutput:
    """Makes frames of DataFrames for one process. Refuses an environment without pyarrow."""

    def __init__(self) -> None:
        missing = [module for module in ("pandas", "pyarrow") if importlib.util.find_spec(module) is None]
        if missing:
            raise ScriptError(
                "ModuleNotFoundError",
                "output_format is parquet, so run() returns a pandas.DataFrame that pyarrow writes, and the "
                f"job's environment has no {' and no '.join(missing)}; install it there: "
                "python -m pip install pandas pyarrow",
            )
        import pyarrow
        import pyarrow.ipc

        if int(pyarrow.__version__.split(".")[0]) < _OLDEST_PYARROW:
            raise ScriptError(
                "ImportError",
                f"pyarrow {pyarrow.__version__} is too old for output_format parquet; install "
                f"{_OLDEST_PYARROW} or newer",
            )
        if not pyarrow.Codec.is_available("zstd"):
            raise ScriptError(
                "ImportError",
                f"pyarrow {pyarrow.__version__} was built without zstd, which output_format parquet needs; "
                "install one that has it: python -m pip install pyarrow",
            )
        self._pyarrow = pyarrow
        self._options = pyarrow.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
        # Mini-batches of a job mostly have the same schema.
        self._header: tuple[Any, str] | None = None

    def of_table(self, table: Any) -> tuple[bytes, str | None]:
        """The rows of a DataFrame, and their header; nothing of one without rows."""
        if len(table) == 0:
            return b"", None
        pyarrow = self._pyarrow
        arrow = self._arrow(table)
        for position, field in enumerate(arrow.schema):
            # Dicts without keys may have some in other mini-batches; a type of pyarrow is what it is.
            is_declared = hasattr(table.dtypes.iloc[position], "pyarrow_dtype")
            problem = self._problem(field.type, is_declared)
            if problem is not None:
                raise ValueError(
                    f"column {field.name!r} of the DataFrame that run() returned cannot be written as "
                    f"Parquet: {problem}; {_REMEDY}"
                )
        header = self._header_of(arrow)
        arrow = arrow.replace_schema_metadata(None)
        rows = max(1, min(_BATCH_ROWS, len(table) * _BATCH_BYTES // max(arrow.nbytes, 1)))
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, arrow.schema, options=self._options) as stream:
            stream.write_table(arrow, max_chunksize=rows)
        return sink.getvalue().to_pybytes(), header

    def _arrow(self, table: Any) -> Any:
        """The table that `pandas.to_parquet` would write; refuses what it cannot."""
        pyarrow = self._pyarrow
        if table.shape[1] == 0:
            raise ValueError(
                f"the DataFrame that run() returned has {len(table)} rows and no columns, and a Parquet "
                "file has no rows without columns: give it a column"
            )
        if table.attrs:
            # They are of this frame, not of the rows of others.
            table = table.copy(deep=False)
            table.attrs = {}
        names = [str(name) for name in table.columns]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(
                f"the DataFrame that run() returned has two columns named {twice!r}, of which a Parquet "
                "file can have one: give the columns different names, with result.columns = NAMES"
            )
        try:
            # Columns of several chunks may have categories of their own in each.
            return pyarrow.Table.from_pandas(table, preserve_index=False).unify_dictionaries()
        except Exception as error:
            for position, name in enumerate(names):
                try:
                    pyarrow.Table.from_pandas(table.iloc[:, [position]], preserve_index=False)
                except Exception as of_column:
                    told = "; ".join(str(part) for part in of_column.args)
                    raise ValueError(
                        f"column {name!r} of the DataFrame that run() returned cannot be written as Parquet: "
                        f"{told}; {_REMEDY}"
                    ) from None
            raise ValueError(
                f"the DataFrame that run() returned cannot be written as Parquet: {error}"
            ) from None

    def _problem(self, kind: Any, is_declared: bool) -> str | None:
        """Why a type of Arrow's, which the script chose where it `is_declared`, is none of Parquet's; nothing
        where it is."""
        types = self._pyarrow.types
        for name in ("union", "run_end_encoded", "interval", "list_view", "large_list_view"):
            is_kind = getattr(types, f"is_{name}", None)
            if is_kind is not None and is_kind(kind):
                return f"Parquet has no type {kind}"
        if types.is_decimal(kind) and not 0 <= kind.scale <= kind.precision:
            return f"Parquet has no {kind}: its digits behind the point are fewer than none, or more than all"
        if types.is_dictionary(kind):
            return self._problem(kind.value_type, is_declared)
        if isinstance(kind, self._pyarrow.BaseExtensionType):
            return self._problem(kind.storage_type, is_declared)
        if types.is_nested(kind):
            if is_declared and types.is_struct(kind) and kind.num_fields == 0:
                return "Parquet has no struct without fields"
            inner = (self._problem(kind.field(at).type, is_declared) for at in range(kind.num_fields))
            return next((problem for problem in inner if problem is not None), None)
        return None

    def _header_of(self, arrow: Any) -> str:
        """The schema as text, the same for all frames of the same types."""
        schema = arrow.schema
        types = self._pyarrow.types
        for at, field in enumerate(schema):
            marks = {}
            if arrow.column(at).null_count == arrow.num_rows and not types.is_null(field.type):
                marks[_MISSING] = b""
            if types.is_dictionary(field.type) and field.type.ordered:
                categories = arrow.column(at).chunk(0).dictionary.to_pylist()
                order = " < ".join(str(category) for category in categories)
                marks[_ORDER] = order.encode()
            if marks:
                schema = schema.set(at, field.with_metadata({**(field.metadata or {}), **marks}))
        if self._header is None or not self._header[0].equals(schema, check_metadata=True):
            of_types = schema.with_metadata(_of_types(schema.metadata or {}))
            compressed = self._pyarrow.compress(of_types.serialize(), codec="zstd", asbytes=True)
            self._header = schema, base64.b64encode(compressed).decode()
        return self._header[1]


def _of_types(metadata: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """What pandas says of the types of a frame, without what it says of its values and of its own version."""
    told = json.loads(metadata.get(b"pandas", b"{}"))
    columns = told.get("columns", [])
    for column in columns:
        if column["pandas_type"] == "categorical":
            # How many categories there are.
            column["metadata"] = None
    kept = {"index_columns": [], "column_indexes": told.get("column_indexes", []), "columns": columns}
    return {b"pandas": json.dumps(kept).encode()}
