"""Files as an MLflow model gets them: read by their suffix, in the types of the model's signature.

What has another type in a file than in the signature is read as it is: MLflow refuses it then, and says which
column it was.
"""

from __future__ import annotations

import math
import os
from typing import Any

# The plan of the job refuses other suffixes (`job::mlflow` of the agent).
_TABLES = (".parquet", ".pqt")
_IMAGES = (".png", ".jpg", ".jpeg", ".tiff", ".bmp", ".gif")


class FileReader:
    """Reads files for a model with this signature, a `mlflow.types.Schema`, or none."""

    def __init__(self, schema: Any | None) -> None:
        self._inputs = [] if schema is None else list(schema.inputs)
        is_tensor = schema is not None and schema.is_tensor_spec()
        # One of several tensors has to be named, as the columns of a table are.
        self._tensor = self._inputs[0] if is_tensor and len(self._inputs) == 1 else None
        self._columns = [] if is_tensor else self._inputs

    def read(self, path: str) -> Any:
        """What `predict` gets of the file: a DataFrame, or an array."""
        suffix = os.path.splitext(path)[1].lower()
        if suffix == ".csv":
            return self._text(path) if self._tensor is None else self._tensor_of_text(path)
        if suffix in _TABLES:
            import pandas

            return pandas.read_parquet(path)
        if suffix in _IMAGES:
            return self._image(path)
        raise ValueError(f"Error processing input file: {path!r}. File type {suffix[1:]!r} is not supported.")

    def _text(self, path: str) -> Any:
        import pandas

        types = self._types(pandas.read_csv(path, nrows=0).columns)
        dates = [name for name, kind in types.items() if getattr(kind, "kind", "") == "M"]
        types = {name: kind for name, kind in types.items() if name not in dates}
        try:
            return pandas.read_csv(path, dtype=types, parse_dates=dates)
        except (OverflowError, TypeError, ValueError):
            # A blank among integers, for one.
            types = {name: kind for name, kind in types.items() if _fits(path, name, kind)}
            return pandas.read_csv(path, dtype=types, parse_dates=dates)

    def _types(self, names: Any) -> dict[str, Any]:
        """The type in the signature of each of these columns that is in there: by its name, or by its place
        where the signature has no names."""
        if any(column.name is None for column in self._columns):
            known = dict(zip(names, self._columns))
        else:
            by_name = {column.name: column for column in self._columns}
            known = {name: by_name[name] for name in names if name in by_name}
        # Lists, mappings and the like have no type as a column of text.
        plain = {name: column.type for name, column in known.items() if hasattr(column.type, "to_pandas")}
        return {name: kind.to_pandas() for name, kind in plain.items()}

    def _tensor_of_text(self, path: str) -> Any:
        import numpy

        dtype, shape = self._tensor.type, self._tensor.shape
        with open(path, encoding="utf-8-sig") as file:
            first = file.readline().rstrip("\r\n").split(",")
        is_header = not all(_is_value(field.strip(), dtype.kind) for field in first)
        array = numpy.genfromtxt(
            path, delimiter=",", dtype=dtype, skip_header=int(is_header), encoding="utf-8-sig"
        )
        rest = tuple(shape[1:])
        return array.reshape((array.size // len(first) if -1 in rest else -1, *rest))

    def _image(self, path: str) -> Any:
        import numpy
        import pandas

        if self._columns:
            [column, *others] = self._columns
            if others or getattr(column.type, "name", "") != "binary":
                raise TypeError(
                    "an image is for a signature of one tensor, or of one column of type binary; that of the "
                    f"model has {', '.join(str(column) for column in self._columns)}"
                )
            with open(path, "rb") as file:
                return pandas.DataFrame({column.name or 0: [file.read()]})
        if self._inputs and self._tensor is None:
            names = ", ".join(str(tensor.name) for tensor in self._inputs)
            raise TypeError(
                f"an image is for a signature of one tensor; that of the model has several: {names}"
            )
        array = _pixels(path)
        if self._tensor is None:
            return array.astype(numpy.uint8)[numpy.newaxis]
        shape = tuple(self._tensor.shape)
        if shape == (-1,):
            single = numpy.empty(1, dtype=object)
            single[0] = array
            return single
        return array.astype(self._tensor.type).reshape(_with_batch(shape, array.shape))


def _pixels(path: str) -> Any:
    """The first frame of an image."""
    import numpy
    from PIL import Image

    with Image.open(path) as image:
        image.seek(0)
        return numpy.array(image)


def _with_batch(shape: tuple[int, ...], of_image: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` for a batch of one: what it leaves open is as the image has it."""
    batch = 1 if shape[:1] == (-1,) else shape[0]
    rest = list(shape[1:])
    if len(rest) == len(of_image):
        rest = [known if wanted == -1 else wanted for wanted, known in zip(rest, of_image)]
    return (batch, *rest)


def _fits(path: str, name: str, kind: Any) -> bool:
    """Whether a column of the file can be read in this type."""
    import pandas

    try:
        pandas.read_csv(path, usecols=[name], dtype={name: kind})
    except (OverflowError, TypeError, ValueError):
        return False
    return True


def _is_value(field: str, kind: str) -> bool:
    """Whether a field of the first line is a value, and no name of a column; nothing is a missing value."""
    if kind == "b":
        return field.lower() in ("", "true", "false", "0", "1")
    if kind not in "iufc" or not field:
        return True
    try:
        return not math.isnan((complex if kind == "c" else float)(field).real) or field.lower() == "nan"
    except ValueError:
        return False
