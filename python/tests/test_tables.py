"""DataFrames that run() returned: byte for byte what pandas' to_csv writes (spec E8)."""

from __future__ import annotations

import datetime
import decimal
import io
import json

import numpy as np
import pandas as pd
import pytest
from harness import files

LOAD = (
    "import pickle\ndef run(mini_batch):\n    with open(mini_batch[0], 'rb') as f:\n"
    "        return pickle.load(f)\n"
)
# The fast way is proven by the slow one being out of order.
FAST_ONLY = "import pandas\npandas.DataFrame.to_csv = None\n" + LOAD

WORDS = [
    "",
    "plain",
    "two words",
    'quo"te',
    "a,b",
    "ü€😀",
    "new\nline",
    "tab\t",
    "'",
    "x" * 300,
    "NA",
    "1",
    " ",
]


def sample(seed, rows):
    """A frame of columns the extension writes by itself."""
    random = np.random.default_rng(seed)
    floats = random.choice(
        [0.1, -0.0, 1e16, 1e-7, 123456789.123, np.nan, np.inf, -np.inf, 1 / 3, 5e-324], rows
    )
    days = pd.Timestamp("2024-02-28") + pd.to_timedelta(random.integers(0, 900, rows), unit="D")
    seconds = days + pd.to_timedelta(random.integers(0, 86400, rows), unit="s")
    columns = {
        "float64": floats,
        "random": random.normal(size=rows) * 10.0 ** random.integers(-20, 20, rows),
        "float32": random.normal(size=rows).astype("float32") * np.float32(1000),
        "bool": random.random(rows) < 0.5,
        "text": pd.Series(random.choice(np.array(WORDS, dtype=object), rows)),
        "object": pd.Series(
            random.choice(np.array([*WORDS, None, np.nan], dtype=object), rows), dtype=object
        ),
        "days": days,
        "seconds": pd.Series(seconds).where(random.random(rows) < 0.8),
        "micros": pd.Series(seconds + pd.to_timedelta(random.integers(0, 10**6, rows), unit="us")),
        "coarse": pd.Series(seconds.astype("datetime64[s]")),
    }
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        limits = np.iinfo(name)
        columns[name] = random.integers(limits.min, limits.max, rows, dtype=name, endpoint=True)
    order = random.permutation(list(columns))
    return pd.DataFrame({name: columns[name] for name in order[: random.integers(1, len(order) + 1)]})


def to_rows(frame, **arguments):
    return frame.to_csv(**{"sep": " ", "header": False, "index": False, **arguments}).encode()


@pytest.fixture
def write(start, tmp_path):
    """Returns frames from run() of one process; gives the outcomes."""

    def run(frames, script=LOAD, **options):
        process = start(script, **options).ready()
        outcomes = []
        for number, frame in enumerate(frames):
            path = tmp_path / f"{number}.pkl"
            pd.to_pickle(frame, path)
            outcomes.append(process.run(files(str(path), base="")))
        return outcomes

    return run


def test_random_frames_are_written_as_pandas_does(write):
    frames = [sample(seed, rows) for seed, rows in enumerate([0, 1, 2, 3, 5, 30, 200] * 8)]
    for frame, outcome in zip(frames, write(frames, FAST_ONLY)):
        assert outcome.error is None, outcome.error
        assert outcome.rows == to_rows(frame), frame.dtypes
        assert outcome.returned == len(frame)


@pytest.mark.parametrize("sep", [",", ";", "\t", "|", ".", "-", "1", "e", "T", ":"])
def test_other_separators_and_words_for_missing(write, sep):
    frames = [sample(seed, 50) for seed in range(100, 106)]
    settings = {"append_row": {"pandas.DataFrame.to_csv": {"sep": sep, "na_rep": "N A"}}}
    code = {"parallel_run_step.settings.json": json.dumps(settings)}
    for frame, outcome in zip(frames, write(frames, FAST_ONLY, code=code)):
        assert outcome.error is None, outcome.error
        assert outcome.rows == to_rows(frame, sep=sep, na_rep="N A"), frame.dtypes


ODD = {
    "nullable": pd.DataFrame({"i": pd.array([1, None], "Int64"), "b": pd.array([True, None], "boolean")}),
    "nullable float": pd.DataFrame({"f": pd.array([1.5, None], "Float64")}),
    "string": pd.DataFrame({"s": pd.array(["a b", None], "string")}),
    "arrow": pd.DataFrame({"s": pd.array([1, None], "int64[pyarrow]")}),
    "category": pd.DataFrame({"c": pd.Categorical(["x y", "z"]), "n": [1, 2]}),
    "time zone": pd.DataFrame(
        {"t": pd.to_datetime(["2024-01-01", "2024-06-01"]).tz_localize("Europe/Vienna")}
    ),
    "timedelta": pd.DataFrame({"d": pd.to_timedelta(["1 days", None])}),
    "period": pd.DataFrame({"p": pd.period_range("2024-01", periods=2, freq="M")}),
    "interval": pd.DataFrame({"i": pd.interval_range(0, 2)}),
    "complex": pd.DataFrame({"c": [1 + 2j, 3j]}),
    "float16": pd.DataFrame({"h": np.array([0.1, np.nan], "float16")}),
    "sparse": pd.DataFrame({"s": pd.arrays.SparseArray([0.0, 1.0])}),
    "mixed": pd.DataFrame({"o": [1, "a"], "p": [1, 2.5], "q": [True, None]}, dtype=object),
    "numbers as objects": pd.DataFrame({"o": [1, 2.5, None], "p": [1, 2, 3]}, dtype=object),
    "bytes": pd.DataFrame({"o": [b"x", b"y"]}),
    "lists": pd.DataFrame({"o": [["x"], []]}),
    "dicts": pd.DataFrame({"o": [{"x": 1}, {}]}),
    "dates": pd.DataFrame({"o": [datetime.date(2024, 1, 1), None]}),
    "decimals": pd.DataFrame({"o": [decimal.Decimal("1.10"), None]}),
    "nothing": pd.DataFrame({"o": [None, None], "p": [np.nan, np.nan]}, dtype=object),
    "no columns": pd.DataFrame(index=[0, 1]),
    "no rows": pd.DataFrame({"a": [], "b": pd.Series([], dtype=str)}),
    "doubled names": pd.DataFrame([[1, "a"], [2, "b"]], columns=["x", "x"]),
    "many levels": pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
    "an index": pd.DataFrame({"a": [1, 2]}, index=["x", "y"]),
    "every other row": pd.DataFrame({"a": range(10), "s": list("abcdefghij"), "f": np.arange(10.0)})[::2],
    "backwards": pd.DataFrame({"a": range(10), "f": np.arange(10.0), "t": pd.date_range("2024", periods=10)})[
        ::-1
    ],
    "joined": pd.concat([pd.DataFrame({"s": ["a", None]}), pd.DataFrame({"s": ["b"]})]),
    "wide": pd.DataFrame(np.arange(600.0).reshape(2, 300)),
    "old times": pd.DataFrame({"t": np.array(["0001-01-01", "9999-12-31T23:59:59", "NaT"], "datetime64[s]")}),
    "one empty text": pd.DataFrame({"s": ["", None, "x"]}),
    "nul": pd.DataFrame({"s": ["a\0b", "c"]}),
}


@pytest.mark.parametrize("index", [False, True])
def test_odd_frames_are_written_as_pandas_does(write, index):
    code = {
        "parallel_run_step.settings.json": json.dumps(
            {"append_row": {"pandas.DataFrame.to_csv": {"index": index}}}
        )
    }
    for (name, frame), outcome in zip(ODD.items(), write(ODD.values(), code=code)):
        assert outcome.error is None, (name, outcome.error)
        assert outcome.rows == to_rows(frame, index=index), name
        assert outcome.returned == len(frame)
        assert outcome.header is None


def test_a_frame_with_a_to_csv_of_its_own_is_asked(start):
    script = (
        "import pandas\nclass Mine(pandas.DataFrame):\n    def to_csv(self, **arguments):\n"
        "        return 'mine\\n'\n"
        "def run(mini_batch):\n    return Mine({'a': [1]})\n"
    )
    assert start(script).ready().run().rows == b"mine\n"


def test_text_that_is_not_utf_8_is_an_error(write):
    (outcome,) = write([pd.DataFrame({"s": pd.Series(["\udc80"], dtype=object)})])
    assert outcome.error.category in ("ValueError", "UnicodeEncodeError")


FRAME = pd.DataFrame({"a b": [1, 2], "c": ["x", "y"]})


@pytest.mark.parametrize(
    ("arguments", "settings", "to_csv"),
    [
        (["--append_row_dataframe_header", "True"], None, {"header": True}),
        (["--append_row_dataframe_header=true"], None, {"header": True}),
        (["--append_row_dataframe_header", "False"], None, {"header": False}),
        ([], {"header": True, "sep": ","}, {"header": True, "sep": ","}),
        ([], {"header": ["p", "q"]}, {"header": ["p", "q"]}),
        (
            [],
            {"header": True, "index": True, "index_label": "i"},
            {"header": True, "index": True, "index_label": "i"},
        ),
        (["--append_row_dataframe_header", "True"], {"columns": ["c"]}, {"header": True, "columns": ["c"]}),
        ([], {"float_format": "%.2f", "quoting": 1}, {"float_format": "%.2f", "quoting": 1}),
        ([], {"lineterminator": "\r\n", "header": True}, {"lineterminator": "\r\n", "header": True}),
        ([], {}, {}),
    ],
)
def test_settings_are_followed_and_the_header_is_kept_apart(write, arguments, settings, to_csv):
    code = {}
    if settings is not None:
        document = {"append_row": {"pandas.DataFrame.to_csv": settings}}
        code["parallel_run_step.settings.json"] = json.dumps(document)
    (outcome,) = write([FRAME], arguments=arguments, code=code)
    assert outcome.error is None, outcome.error
    assert (outcome.header or "").encode() + outcome.rows == to_rows(FRAME, **to_csv)
    assert (outcome.header is not None) == bool(to_csv.get("header"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "an object is expected where [] stands"),
        ('{"append": {}}', "'append' is not known here; 'append_row' is"),
        ('{"append_row": {"to_csv": {}}}', "'to_csv' is not known here; 'pandas.DataFrame.to_csv' is"),
        ('{"append_row": {"pandas.DataFrame.to_csv": []}}', "an object is expected"),
        (
            '{"append_row": {"pandas.DataFrame.to_csv": {"separator": 1}}}',
            "to_csv has no argument 'separator'",
        ),
        ('{"append_row": {"pandas.DataFrame.to_csv": {"mode": "a"}}}', "'mode' cannot be set"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(start, text, message):
    error = start(LOAD, code={"parallel_run_step.settings.json": text}).init_failed()
    assert error.category == "ValueError"
    assert "parallel_run_step.settings.json" in error.message
    assert message in error.message


def test_a_header_that_is_neither_true_nor_false_is_refused(start):
    error = start(LOAD, arguments=["--append_row_dataframe_header", "yes"]).init_failed()
    assert "'yes': True or False is expected" in error.message


def test_frames_are_written_where_pyarrow_is_missing(start):
    hide = "import sys\nsys.modules['pyarrow'] = None\n"
    script = (
        "import pandas\ndef run(mini_batch):\n"
        "    return pandas.DataFrame({'a': [1, 2], 'c': ['x y', None]})\n"
    )
    outcome = start(script, sitecustomize=hide).ready().run()
    assert outcome.error is None, outcome.error
    assert outcome.rows == b'1 "x y"\n2 \n'


CSV = {"output_format": [",", True]}
NAMES = [
    ["a", "b"],
    ["a,b", 'q"q', "new\nline", " ", ""],
    [""],
    ["ü"],
    [0, 1],
    ["a", 1.5, None],
    [("a", "x"), ("a", "y")],
]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("rows", [0, 2])
def test_the_header_of_csv_is_what_pandas_writes(write, names, rows):
    columns = pd.MultiIndex.from_tuples(names) if isinstance(names[0], tuple) else names
    frame = pd.DataFrame([list(range(len(names)))] * rows, columns=columns)
    (outcome,) = write([frame], **CSV)
    assert outcome.error is None
    assert outcome.header == frame.iloc[:0].to_csv(index=False)
    assert outcome.rows == frame.to_csv(header=False, index=False).encode()


def test_random_frames_are_written_as_csv_without_pandas(write):
    frames = [sample(seed, rows) for seed, rows in enumerate([0, 1, 3, 30])]
    for frame, outcome in zip(frames, write(frames, FAST_ONLY, **CSV)):
        assert outcome.error is None, outcome.error
        assert outcome.rows == to_rows(frame, sep=",")
        assert outcome.header == ",".join(frame.columns) + "\n"


def test_a_field_of_csv_with_a_carriage_return_is_quoted(write):
    (outcome,) = write([pd.DataFrame({"a\rb": ["c\rd"]})], output_format=[";", True])
    assert (outcome.header, outcome.rows) == ('"a\rb"\n', b'"c\rd"\n')


def test_the_same_beside_a_column_that_pandas_writes(write):
    texts = ["c\rd", "c\r\nd", 'c"\r\n"', "c\n", "", "c,d", "plain"]
    frame = pd.DataFrame({"a\rb": texts, "kind": pd.Categorical(["x\r"] * len(texts))})
    (outcome,) = write([frame], output_format=[",", True])
    assert outcome.error is None
    quoted = ['"c\rd"', '"c\r\nd"', '"c""\r\n"""', '"c\n"', "", '"c,d"', "plain"]
    assert outcome.rows.decode() == "".join(f'{text},"x\r"\n' for text in quoted)
    assert outcome.header == '"a\rb",kind\n'
    again = pd.read_csv(
        io.StringIO(outcome.header + outcome.rows.decode()), lineterminator="\n", keep_default_na=False
    )
    assert again.to_dict("list") == {"a\rb": texts, "kind": ["x\r"] * len(texts)}


def test_a_frame_without_columns_has_no_header(write):
    outcomes = write([pd.DataFrame(), pd.DataFrame({"a": []})], **CSV)
    assert [(outcome.header, outcome.rows) for outcome in outcomes] == [(None, b""), ("a\n", b"")]


def test_csv_takes_more_from_the_settings_of_the_script(write):
    settings = {"append_row": {"pandas.DataFrame.to_csv": {"na_rep": "NA", "float_format": "%.1f"}}}
    code = {"parallel_run_step.settings.json": json.dumps(settings)}
    (outcome,) = write([pd.DataFrame({"a": [1.25, None]})], code=code, **CSV)
    assert (outcome.header, outcome.rows) == ("a\n", b"1.2\nNA\n")


@pytest.mark.parametrize("name", ["sep", "header", "index"])
def test_csv_is_not_made_something_else_by_the_script(start, name):
    settings = {"append_row": {"pandas.DataFrame.to_csv": {name: True}}}
    code = {"parallel_run_step.settings.json": json.dumps(settings)}
    kind, fields = start(LOAD, code=code, **CSV).receive()
    assert kind == "InitFailed"
    assert f"{name!r} is what output_format of the job file says" in str(fields)


@pytest.mark.parametrize("body", ["['a']", "('a',)", "iter('a')", "pandas.Series([1])", "None", "'a'"])
def test_csv_takes_tables_alone(start, body):
    script = f"import pandas\ndef run(mini_batch):\n    return {body}\n"
    outcome = start(script, **CSV).ready().run(files("a"))
    assert (outcome.error.stage, outcome.error.category) == ("Run", "TypeError")
    assert "the job file has output_format, so expected is a pandas DataFrame" in outcome.error.message


@pytest.mark.parametrize("body", ["[]", "()"])
def test_csv_takes_nothing_for_nothing(start, body):
    outcome = start(f"def run(mini_batch):\n    return {body}\n", **CSV).ready().run(files("a"))
    assert (outcome.error, outcome.returned, outcome.rows) == (None, 0, b"")
