"""Models of MLflow without a script: how files are read, what becomes of predictions, files that fail."""

from __future__ import annotations

import csv
import datetime
import decimal
import importlib
import io
import json
import logging
import math
import sys
from types import SimpleNamespace

import mlflow.pyfunc
import numpy
import pandas
import pytest
from harness import PACKAGE, files
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema, TensorSpec
from PIL import Image

sys.path.insert(0, str(PACKAGE.parent))
inputs = importlib.import_module("azureml_user.parallel_run.mlflow_inputs")
rows = importlib.import_module("azureml_user.parallel_run.mlflow_rows")
score = importlib.import_module("azureml_user.parallel_run.score_mlflow")
errors = importlib.import_module("azureml_user.parallel_run.errors")

SCRIPT = "azureml_user.parallel_run.score_mlflow"
WITHOUT_MLFLOW = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "mlflow":
            raise ModuleNotFoundError("No module named 'mlflow'", name=name)
sys.meta_path.insert(0, Absent())
"""
logging.getLogger("mlflow").setLevel(logging.ERROR)


def columns(*specs):
    return Schema([ColSpec(kind, name) for name, kind in specs])


def tensor(dtype, *shape):
    return Schema([TensorSpec(numpy.dtype(dtype), shape)])


def save(folder, predict, schema=None):
    """Stores a model whose `predict` this is, and loads it as the script does."""

    class Model(mlflow.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):
            return predict(model_input)

    path = folder / "registered" / "model"
    signature = None if schema is None else ModelSignature(inputs=schema)
    mlflow.pyfunc.save_model(path, python_model=Model(), signature=signature, pip_requirements=["pandas"])
    return path


def scorer(folder, predict, schema=None):
    return score.Scorer(mlflow.pyfunc.load_model(str(save(folder, predict, schema))))


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def read_back(written):
    return list(csv.reader(io.StringIO(written.decode())))


# --- what predict gets


def test_columns_are_read_in_the_types_of_the_signature(tmp_path):
    # `thal` is text that looks like numbers, `more` is in no signature, and the order is another one.
    path = write(
        tmp_path,
        "A.CSV",
        "more,thal,age,rate,when\nx,01,63,1,2024-02-29 10:00\ny,2,37,2.5,2024-03-01 00:30\n",
    )
    schema = columns(
        ("age", "integer"), ("rate", "double"), ("thal", "string"), ("when", "datetime"), ("gone", "long")
    )
    read = inputs.FileReader(schema).read(path)
    assert read["thal"].tolist() == ["01", "2"]
    assert (str(read["age"].dtype), str(read["rate"].dtype)) == ("int32", "float64")
    assert read["when"].dt.year.tolist() == [2024, 2024]
    assert read["more"].tolist() == ["x", "y"]


def test_the_signature_is_held_against_the_data_by_mlflow(tmp_path):
    schema = columns(("age", "long"), ("thal", "string"))
    model = scorer(tmp_path, lambda data: [f"{row.age}{row.thal}" for row in data.itertuples()], schema)
    good = write(tmp_path, "a.csv", "thal,age,extra\n1,63,9\n2,37,9\n")
    assert read_back(model.rows(good, "a.csv")) == [["0", "631", "a.csv"], ["1", "372", "a.csv"]]
    for text, said in [
        ("thal\n1\n", "age"),
        # A blank makes floats of whole numbers, which is no safe cast.
        ("thal,age\n1,63\n2,\n", "age"),
        ("thal,age\n1,old\n", "age"),
    ]:
        with pytest.raises(mlflow.exceptions.MlflowException, match=said):
            model.rows(write(tmp_path, "b.csv", text), "b.csv")


def test_columns_without_names_go_by_their_place(tmp_path):
    schema = Schema([ColSpec("string"), ColSpec("long")])
    read = inputs.FileReader(schema).read(write(tmp_path, "a.csv", "x,y\n01,2\n"))
    assert read.iloc[0].tolist() == ["01", 2]


def test_tables_without_a_signature_are_as_pandas_reads_them(tmp_path):
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
    frame.to_parquet(tmp_path / "a.pqt")
    frame.to_parquet(tmp_path / "a.PARQUET")
    frame.to_csv(tmp_path / "a.csv", index=False)
    for name in ["a.pqt", "a.PARQUET", "a.csv"]:
        read = inputs.FileReader(None).read(str(tmp_path / name))
        assert read["a"].tolist() == [1, 2] and read["b"].isna().tolist() == [False, True], name


@pytest.mark.parametrize(
    ("dtype", "shape", "text", "expected"),
    [
        ("float64", (-1, 3), "a,b,c\n1,2,3\n4,5.5,6\n", [[1, 2, 3], [4, 5.5, 6]]),
        ("float64", (-1, 3), "1,2,3\n", [[1, 2, 3]]),
        ("int64", (-1, 2, 2), "1,2,3,4\n5,6,7,8\n", [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
        ("float64", (-1,), "x\n1\n2\n", [1, 2]),
        ("float64", (-1, -1), "1,2\n3,4\n5,6\n", [[1, 2], [3, 4], [5, 6]]),
        ("float64", (-1, 2), "\ufeffa,b\r\n1,2\r\n", [[1, 2]]),
        ("float64", (-1, 2), "a,b\n", []),
        # A first record that misses a value is no header.
        ("float64", (-1, 2), ",2\n3,4\n", [[None, 2], [3, 4]]),
    ],
)
def test_text_becomes_the_tensor_of_the_signature(tmp_path, dtype, shape, text, expected):
    read = inputs.FileReader(tensor(dtype, *shape)).read(write(tmp_path, "a.csv", text))
    assert read.dtype == dtype
    plain = json.loads(json.dumps(read.tolist()).replace("NaN", "null"))
    assert plain == expected


def image(folder, name, size=(3, 2), mode="RGB"):
    picture = Image.new(mode, size)
    for at in range(size[0] * size[1]):
        value = at if mode == "L" else (at, at, at)
        picture.putpixel((at % size[0], at // size[0]), value)
    picture.save(folder / name)
    return str(folder / name)


def test_images_are_arrays_with_a_batch_of_one(tmp_path):
    path = image(tmp_path, "a.PNG")
    read = inputs.FileReader(None).read(path)
    assert (read.shape, read.dtype, read[0, 1, 2].tolist()) == ((1, 2, 3, 3), numpy.uint8, [5, 5, 5])
    grey = image(tmp_path, "b.bmp", mode="L")
    for schema, of_path, shape in [
        (tensor("float32", -1, 2, 3, 3), path, (1, 2, 3, 3)),
        (tensor("float32", -1, -1, -1, 3), path, (1, 2, 3, 3)),
        (tensor("float32", -1, 2, 3, 1), grey, (1, 2, 3, 1)),
        (tensor("uint8", -1, 6), grey, (1, 6)),
    ]:
        read = inputs.FileReader(schema).read(of_path)
        assert (read.shape, read.dtype) == (shape, schema.inputs[0].type)
    single = inputs.FileReader(tensor("object", -1)).read(path)
    assert single.shape == (1,) and single[0].shape == (2, 3, 3)
    frame = inputs.FileReader(columns(("bytes", "binary"))).read(path)
    assert frame["bytes"][0][:4] == b"\x89PNG"
    for schema in [columns(("a", "binary"), ("b", "long")), columns(("a", "double"))]:
        with pytest.raises(TypeError, match="an image is for a signature of one tensor"):
            inputs.FileReader(schema).read(path)
    several = Schema([TensorSpec(numpy.dtype("uint8"), (-1, 6), name) for name in ["x", "y"]])
    with pytest.raises(TypeError, match="several: x, y"):
        inputs.FileReader(several).read(path)


def test_the_first_frame_of_an_image_counts(tmp_path):
    frames = [Image.new("L", (2, 2), color) for color in (10, 200)]
    frames[0].save(tmp_path / "a.tiff", save_all=True, append_images=frames[1:])
    assert inputs.FileReader(None).read(str(tmp_path / "a.tiff"))[0, 0, 0] == 10


def test_another_type_is_refused(tmp_path):
    with pytest.raises(ValueError, match="File type 'avro' is not supported"):
        inputs.FileReader(None).read(write(tmp_path, "x.avro", ""))


# --- what becomes of it


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        (numpy.array([1, 2]), ["0,1,f", "1,2,f"]),
        (numpy.array([0.1, math.nan, 1e22, math.inf]), ["0,0.1,f", "1,,f", "2,1e+22,f", "3,inf,f"]),
        (numpy.array([0.1, 1], dtype="float32"), ["0,0.1,f", "1,1.0,f"]),
        (numpy.array([True, False]), ["0,True,f", "1,False,f"]),
        (numpy.array(["a,b", 'say "x"']), ['0,"a,b",f', '1,"say ""x""",f']),
        (numpy.array([[0.1, 0.9], [1.0, math.nan]]), ['0,"[0.1, 0.9]",f', '1,"[1.0, null]",f']),
        (numpy.array([[0.1]], dtype="float32"), ["0,[0.1],f"]),
        (numpy.array([[[1], [2]]]), ['0,"[[1], [2]]",f']),
        (numpy.array(7), ["0,7,f"]),
        (numpy.float32(0.1), ["0,0.1,f"]),
        (numpy.array(["2024-01-02"], dtype="datetime64[s]"), ["0,2024-01-02T00:00:00,f"]),
        (numpy.array([{"a": numpy.int8(1)}, None], dtype=object), ['0,"{""a"": 1}",f', "1,,f"]),
        (pandas.Series([1.5, None], index=["x", "y"]), ["0,1.5,f", "1,,f"]),
        (pandas.Series(["é\n", pandas.NA], dtype="string"), ['0,"é\n",f', "1,,f"]),
        (pandas.Series(["b", "a"], dtype="category"), ["0,b,f", "1,a,f"]),
        (pandas.Series([1, None], dtype="Int64"), ["0,1,f", "1,,f"]),
        (["yes", None, b"\x00\xff", 3], ["0,yes,f", "1,,f", "2,AP8=,f", "3,3,f"]),
        ([[1, 2], {"k": numpy.float32(0.1)}], ['0,"[1, 2]",f', '1,"{""k"": 0.1}",f']),
        (
            [
                datetime.date(2024, 1, 2),
                pandas.Timestamp(2024, 1, 2, 3),
                pandas.NaT,
                pandas.Timedelta(hours=1),
            ],
            ["0,2024-01-02,f", "1,2024-01-02T03:00:00,f", "2,,f", "3,P0DT1H0M0S,f"],
        ),
        ([decimal.Decimal("1.10")], ["0,1.10,f"]),
        ("one text", ["0,one text,f"]),
        (
            pandas.DataFrame({"label": ["a", "b"], "score": numpy.array([0.25, 1], "float32")}, index=[7, 3]),
            ["0,a,0.25,f", "1,b,1.0,f"],
        ),
        ({"label": ["a"], "scores": numpy.array([[0.5, 0.5]])}, ['0,a,"[0.5, 0.5]",f']),
        ((value for value in "ab"), ["0,a,f", "1,b,f"]),
    ],
)
def test_predictions_become_rows(prediction, expected):
    written, count = rows.written(prediction, "f")
    assert (written.decode(), count) == ("".join(f"{row}\n" for row in expected), len(expected))


def test_a_sparse_matrix_is_a_matrix():
    class Sparse:
        def toarray(self):
            return numpy.array([[1, 0]])

    assert rows.written(Sparse(), "f")[0] == b'0,"[1, 0]",f\n'


@pytest.mark.parametrize(
    "prediction", [[], numpy.empty((0, 3)), pandas.DataFrame({"a": []}), {}, pandas.Series([])]
)
def test_nothing_is_no_row(prediction):
    assert rows.written(prediction, "f") == (b"", 0)


@pytest.mark.parametrize(
    ("prediction", "said"),
    [
        (None, "returned None"),
        (object(), "returned a object"),
        ({"a": [1], "b": [1, 2]}, "a 1, b 2"),
        (pandas.DataFrame(index=[1]), "without columns"),
    ],
)
def test_what_is_no_prediction_is_refused(prediction, said):
    with pytest.raises((TypeError, ValueError), match=said):
        rows.written(prediction, "f")


def test_rows_are_read_back_as_they_were():
    values = ["", "a,b", 'q"q', "two\nlines", "cr\rlf\r\n", "é", "'", " x "]
    for name in ["plain.csv", 'odd, "name".csv']:
        written, _ = rows.written(values, name)
        read = pandas.read_csv(
            io.BytesIO(written),
            names=["row", "prediction", "file"],
            keep_default_na=False,
            lineterminator=None,
        )
        assert read["prediction"].tolist() == values and set(read["file"]) == {name}


# --- a mini-batch of several files


class Counting:
    """Stands for a loaded model: raises for what is called bad, and counts."""

    def __init__(self):
        self.seen = []

    def rows(self, path, name):
        self.seen.append(name)
        if "bad" in name:
            raise KeyError(name)
        return f"0,1,{name}\n".encode()


@pytest.fixture
def scored(monkeypatch):
    model = Counting()
    monkeypatch.setattr(score, "_scorer", model)
    monkeypatch.setattr(score, "_most_tries", 3)
    return lambda names, tries: (
        score.run([f"/d/{name}" for name in names], SimpleNamespace(items=names, retry_count=tries)),
        model,
    )


def test_the_last_try_keeps_the_rows_of_good_files(scored):
    result, model = scored(["a", "bad1", "b", "bad2"], 2)
    assert (result.rows, result.items) == (b"0,1,a\n0,1,b\n", 2)
    category, message, traceback, frame = result.failed
    assert (category, frame) == ("KeyError", None) and "KeyError" in traceback
    lines = message.splitlines()
    assert lines == ["2 of 4 files cannot be scored:", "bad1: 'bad1' (KeyError)", "bad2: 'bad2' (KeyError)"]
    assert model.seen == ["a", "bad1", "b", "bad2"]
    assert scored(["a"], 2)[0].failed is None


@pytest.mark.parametrize(("names", "tries"), [(["a", "bad", "b"], 1), (["bad"], 2)])
def test_a_try_that_is_not_the_last_and_one_without_a_good_file_fail(scored, names, tries):
    with pytest.raises(errors.ScriptError) as raised:
        scored(names, tries)
    category, message, traceback, _ = errors.describe(raised.value, "run()")
    assert (category, message) == ("KeyError", "bad: 'bad'") and "in rows" in traceback


def test_a_result_without_rows_is_a_failure_unless_there_was_nothing(tmp_path):
    model = scorer(tmp_path, lambda data: [])
    assert model.rows(write(tmp_path, "none.csv", "a\n"), "none.csv") == b""
    with pytest.raises(ValueError, match="no rows for 2"):
        model.rows(write(tmp_path, "two.csv", "a\n1\n2\n"), "two.csv")


# --- in a process


def process(start, model, **more):
    """Starts one that finds the model where those of a job do: as a link, the only entry of a folder."""
    linked = model.parent.parent / "linked"
    linked.mkdir(exist_ok=True)
    if not (linked / "model").exists():
        (linked / "model").symlink_to(model)
    return start(entry_script=SCRIPT, environment={"AZUREML_MODEL_DIR": str(linked)}, **more)


def test_a_process_scores_files(start, tmp_path):
    def double(data):
        if data["x"].iloc[0] < 0:
            raise ValueError("x is negative")
        return data["x"] * 2

    model = save(tmp_path, double, columns(("x", "long")))
    for name, text in [("good.csv", "x\n1\n2\n"), ("bad.csv", "x\n-1\n"), ("sub/more.csv", "x\n3\n")]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path, name, text)
    running = process(start, model, run_max_try=2).ready()
    work = files("good.csv", "bad.csv", "sub/more.csv", base=str(tmp_path))
    running.hand_over(work)
    first = running.outcome()
    assert (first.error.stage, first.error.category) == ("Run", "ValueError")
    assert first.error.message == "bad.csv: x is negative" and "in double" in first.error.traceback
    assert (first.rows, first.returned) == (b"", 0)
    running.hand_over(work, retry_count=1)
    last = running.outcome()
    assert last.rows == b"0,2,good.csv\n1,4,good.csv\n0,6,sub/more.csv\n"
    assert (last.items, last.returned, last.error.stage) == (3, 2, "Items")
    assert last.error.message == "bad.csv: x is negative"
    running.hand_over(files("good.csv", base=str(tmp_path)))
    whole = running.outcome()
    assert (whole.error, whole.returned, whole.rows) == (None, 1, b"0,2,good.csv\n1,4,good.csv\n")


def test_rows_are_counted_alone_where_they_are_written_nowhere(start, tmp_path):
    model = save(tmp_path, lambda data: data)
    write(tmp_path, "a.csv", "x\n1\n")
    running = process(start, model, append_row=False).ready()
    running.hand_over(files("a.csv", base=str(tmp_path)))
    outcome = running.outcome()
    assert (outcome.returned, outcome.rows, outcome.error) == (1, b"", None)


def test_what_is_missing_or_cannot_be_loaded_is_told(start, tmp_path):
    model = save(tmp_path, lambda data: data)
    running = process(start, model, sitecustomize=WITHOUT_MLFLOW)
    error = running.init_failed()
    assert error.category == "ModuleNotFoundError" and running.is_permanent
    assert "has no mlflow" in error.message and "conda_file" in error.message
    requirements = model / "requirements.txt"
    requirements.write_text("pandas==0.1\n", encoding="utf-8")
    (model / "python_model.pkl").write_bytes(b"damaged")
    error = process(start, model).init_failed()
    assert error.category == "ModelNotLoaded"
    assert "MLflow logged:" in error.message and "pandas (current: " in error.message
    assert "UnpicklingError" in error.traceback
