"""Slices of JSON lines: the DataFrame is that of pandas, however the lines are cut (spec D2, D5)."""

from __future__ import annotations

import importlib.util
import json
import sys

import msgpack
import pandas as pd
import pytest
from harness import PACKAGE, extension, table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

INPUTS = [["events", "tabular", "/in/*.jsonl"]]

INTS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5))
FLOATS = st.floats()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SCALARS = st.one_of(
    st.none(), st.booleans(), INTS, st.integers(-(2**80), 2**80), FLOATS, TEXTS, st.just("2026-11-22")
)
NESTED = st.recursive(
    st.one_of(st.none(), st.booleans(), INTS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=4,
)
# What is in a column: mostly values of one kind, some missing.
COLUMNS = st.sampled_from(
    [
        INTS,
        FLOATS,
        TEXTS,
        st.booleans(),
        st.one_of(INTS, FLOATS),
        *(st.one_of(st.none(), kind) for kind in (INTS, FLOATS, TEXTS, st.booleans())),
        SCALARS,
        NESTED,
        st.none(),
    ]
)


@st.composite
def lines(draw):
    """Lines of JSON objects, some of them blank."""
    columns = draw(st.dictionaries(TEXTS, COLUMNS, max_size=4))
    is_sparse, is_ascii = draw(st.booleans()), draw(st.booleans())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), ("\t,\r", " :  ")]))
    end = draw(st.sampled_from(["\n", "\r\n", " \n", "\n\n", "\n \t\r\n"]))
    found = []
    for _ in range(draw(st.integers(1, 12))):
        names = [name for name in columns if not is_sparse or draw(st.booleans())]
        values = {name: draw(columns[name]) for name in names}
        found.append(json.dumps(values, ensure_ascii=is_ascii, separators=separators) + end)
    return found


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Reads lines as a process does."""
    sys.path.insert(0, str(PACKAGE.parent))
    from azureml_user.parallel_run.frames import Frames

    spec = importlib.util.spec_from_file_location("prs_process", extension())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.pop(0)
    path = tmp_path_factory.mktemp("lines") / "t.jsonl"
    slices = module.Slices(Frames(), str(path.parent))

    def read(text, part=None, of_file=None):
        path.write_bytes(text)
        names, kinds = list(of_file or []), list((of_file or {}).values())
        reader = {"JsonLines": [names, kinds] if of_file else [[], []]}
        work = table(path, reader, part=part)
        return slices.read(msgpack.packb(["Local", 0, 0]) + msgpack.packb(work))

    return read


def kind(value):
    """The letter that `Kinds` has for a value."""
    if isinstance(value, float):
        return "x" if value != value else "f"
    if isinstance(value, int) and not isinstance(value, bool):
        fits = -(2**63) <= value < 2**64
        return ("g" if value < 0 else "u" if value >= 2**63 else "i") if fits else "B"
    return {bool: "b", str: "s", type(None): "n"}.get(type(value), "o")


def kinds(records):
    """The kinds of the values of each column, as the planner finds them."""
    found = {}
    for record in records:
        for name, value in record.items():
            found.setdefault(name, []).append(kind(value))
    of_column = {name: "".join(dict.fromkeys(letters)) for name, letters in found.items()}
    return {
        name: letters + ("a" if len(found[name]) < len(records) else "")
        for name, letters in of_column.items()
    }


def same(frame, expected):
    pd.testing.assert_frame_equal(frame, expected, check_exact=True)
    for position in range(expected.shape[1]):
        column, wanted = frame.iloc[:, position], expected.iloc[:, position]
        assert [type(value) for value in column] == [type(value) for value in wanted]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(lines(), st.data())
def test_every_slice_is_what_pandas_makes_of_its_objects(read, lines, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(lines) - 1)))) if len(lines) > 1 else []
    text = "".join(lines).encode()
    records = list(map(json.loads, lines))
    whole, of_file = pd.DataFrame(records), kinds(records)
    start = 0
    for first, last in zip([0, *cuts], [*cuts, len(lines)]):
        part = lines[first:last]
        end = start + len("".join(part).encode())
        same(read(text, (start, end)), pd.DataFrame(records[first:last]))
        same(read(text, (start, end), of_file), whole.iloc[first:last].reset_index(drop=True))
        start = end


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"b":2,"a":"x"}\n{"b":3}\n',
        '{"b":1}\n{"a":2,"b":3}\n{"c":null}',
        '{"\\u0061":1}\n{"a":2}\n',
        '{"a":"\\ud83d\\ude00\\n"}\n{"a":"\\ud83d\\uDE00"}\n',
        '{"a":"\\ud800"}\n{"a":1}\n',
        "{}\n{}\n",
        '{"a":[1,{"b":"]}"}]}\n{"a":null}\n',
        '{"a":1e999,"b":-0,"c":-0.0,"d":18446744073709551615}\n',
        "".join(f'{{"a{n}":{n}}}\n' for n in range(300)),
        f'{{"a":{"9" * 400}}}\n{{"a":null}}\n',
    ],
)
def test_unusual_lines_are_what_pandas_makes_of_them(read, text):
    same(read(text.encode()), pd.DataFrame(map(json.loads, text.splitlines())))


def test_more_names_than_a_table_can_have_are_refused(read, monkeypatch):
    from azureml_user.parallel_run import frames

    monkeypatch.setattr(frames, "_MOST_CELLS", 1_000)
    rare = "".join(f'{{"a{n}":{n}}}\n' for n in range(300)).encode()
    told = frames.Frames().frame_of_lines(rare, 0, {})
    assert told.startswith("its 300 records have 300 names in all, too many for a table: "), told
    assert len(frames.Frames().frame_of_lines(b'{"a":1}\n' * 900, 0, {})) == 900


def test_the_line_that_no_column_can_hold_is_named(read):
    from azureml_user.parallel_run import frames

    told = frames.Frames().frame_of_lines(b'{"k":["\\ud800"]}\n{"a":"\\ud800x"}\n', 100, {})
    assert told.startswith("the line at byte 117 cannot be read: "), told


def test_the_script_may_write_into_every_column(start, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"i":1,"f":0.5,"s":"a","b":true,"o":[1]}\n{"i":2,"f":1,"s":"b","b":false,"o":{}}\n')
    script = (
        "def run(df):\n"
        "    for name, value in zip(df.columns, [7, 2.5, 'new', False, 'x']):\n"
        "        df.loc[0, name] = value\n"
        "    df['i'] += 1\n"
        "    return df\n"
    )
    outcome = start(script, inputs=INPUTS).ready().run(table(path, {"JsonLines": [[], []]}, records=2))
    assert outcome.error is None, outcome.error
    assert (outcome.items, outcome.rows) == (2, b"8 2.5 new False x\n3 1.0 b False {}\n")


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "the line at byte 8 is not JSON: Expecting property name enclosed in double quotes at byte 9"),
        (b'{"\xc3\xa9":1,}', "the line at byte 8 is not JSON: "),
        (b'{"a":1} {}', "the line at byte 8 is not JSON: Extra data at byte 16"),
        (b"[1]", "the line at byte 8 holds no JSON object, but a value of type list"),
        (b"7", "the line at byte 8 holds no JSON object, but a value of type int"),
        (b'{"a":"x\xff"}', "bad UTF-8 at byte 15"),
        (b'{"a":"\\ud800"}', "the line at byte 8 cannot be read: 'utf-8' codec can't encode character"),
        (b'{"a":[1,]}', "the line at byte 8 is not JSON: "),
        (b'{"a":' + DEEP.encode(), "the line at byte 8 cannot be read: "),
    ],
)
def test_a_bad_line_fails_its_mini_batch_with_file_and_place(start, tmp_path, line, message):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"a":1}\n' + line + b'\n{"b":2}\n')
    process = start("def run(df):\n    return df\n", inputs=INPUTS).ready()
    work = table(
        path, {"JsonLines": [[], []]}, origin="/in/t.jsonl.zst", part=(8, path.stat().st_size), records=2
    )
    outcome = process.run(work)
    assert (outcome.error.stage, outcome.error.category, outcome.items) == ("Load", "DataError", 2)
    assert outcome.error.message.startswith(f"/in/t.jsonl.zst: {message}"), outcome.error.message
    assert process.run(table(path, {"JsonLines": [[], []]}, part=(0, 8))).rows == b"1\n"
