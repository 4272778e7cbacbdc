"""Stand-ins for packages of Azure, each only where the real one is missing, and a place for MLflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import PACKAGE

MODEL = "from azureml.core import Model\nfrom azureml.core.model import Model as Same\nassert Model is Same\n"


def run(code: str, *paths: Path, **variables: str) -> list[str]:
    """What `code` prints in an interpreter that a process has set up, with these folders on its path."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW")}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (PACKAGE.parent, *paths)))
    begin = "from azureml_user.parallel_run import surroundings\nsurroundings.set_up()\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + code],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_model_is_found_by_its_name(tmp_path):
    code = (
        MODEL + "print(Model.get_model_path('mnist'), Model.get_model_path('mnist', version=3))\n"
        "try:\n    Model.get_model_path('other')\nexcept FileNotFoundError as error:\n    print(error)\n"
    )
    by_name = tmp_path / "models.json"
    by_name.write_text(json.dumps({"mnist": "/models/mnist"}))
    found, missing = run(code, PRS_MODELS=str(by_name))
    assert found == "/models/mnist /models/mnist"
    assert missing.startswith("the job has no model 'other'; there are: mnist.")
    assert "there are: none" in run(MODEL + code[code.index("try:") :])[0]


def test_a_run_tells_the_job_and_logs(tmp_path):
    code = (
        "from azureml.core import Run\nfrom azureml.core.run import Run as Same\nassert Run is Same\n"
        "run = Run.get_context()\nprint(run.id, run.parent.id, run.experiment.name)\nrun.log('loss', 0.5)\n"
        "try:\n    run.upload_file\nexcept NotImplementedError as error:\n    print(error)\n"
        "print(hasattr(run, '__len__'))\n"
    )
    said = run(code, AZUREML_RUN_ID="job-1", MLFLOW_EXPERIMENT_NAME="mnist")
    missing = "azureml.core.Run.upload_file is not available outside Azure"
    assert said == ["job-1 job-1 mnist", missing, "False"]


@pytest.mark.parametrize("name", ["Workspace", "Dataset", "Experiment"])
def test_what_needs_azure_says_so(name):
    code = f"try:\n    from azureml.core import {name}\nexcept ImportError as error:\n    print(error)\n"
    assert run(code)[0].startswith(f"azureml.core.{name} is not available outside Azure")


def test_real_packages_win(tmp_path):
    for name, text in [
        ("azureml/__init__.py", ""),
        ("azureml/core/__init__.py", "Workspace = 'real'\n"),
        ("mltable/__init__.py", "load = 'real'\n"),
    ]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    code = "import mltable\nfrom azureml.core import Workspace\nprint(Workspace, mltable.load)\n"
    assert run(code, tmp_path) == ["real real"]


def test_a_real_package_beside_the_stand_in_is_found(tmp_path):
    (tmp_path / "azureml/dataprep").mkdir(parents=True)
    (tmp_path / "azureml/dataprep/__init__.py").write_text("NAME = 'real'\n")
    assert run(MODEL + "from azureml.dataprep import NAME\nprint(NAME)\n", tmp_path) == ["real"]


def test_a_script_of_this_name_wins_too(tmp_path):
    (tmp_path / "mltable.py").write_text("load = 'mine'\n")
    assert run("import mltable\nprint(mltable.load)\n", tmp_path) == ["mine"]


def test_mlflow_writes_to_files_and_to_a_database_where_it_has_none(tmp_path):
    code = "import os\nprint(os.environ['MLFLOW_TRACKING_URI'], 'PRS_MLFLOW_FOLDER' in os.environ)\n"
    folder = str(tmp_path / "mlruns/0/process000")
    for has_files, expected in [(True, f"file://{folder}"), (False, f"sqlite:///{folder}/mlflow.db")]:
        packages = tmp_path / str(has_files)
        store = packages / "mlflow/store/tracking"
        store.mkdir(parents=True)
        (packages / "mlflow/__init__.py").write_text("raise ImportError('not to be imported here')\n")
        if has_files:
            (store / "file_store.py").touch()
        assert run(code, packages, PRS_MLFLOW_FOLDER=folder) == [f"{expected} False"]
    assert run(code, PRS_MLFLOW_FOLDER=folder, MLFLOW_TRACKING_URI="http://job") == ["http://job False"]
    assert run(code, PRS_MLFLOW_FOLDER=folder) == [f"file://{folder} False"]


TABLE = "import mltable\ntable = mltable.load(r'{0}').to_pandas_dataframe()\nprint(table.to_dict('list'))\n"


def write_table(folder: Path, text: str) -> str:
    (folder / "MLTable").write_text(text)
    (folder / "b.csv").write_text("x;y\n3;c\n")
    (folder / "a.csv").write_text("x;y\n1;a\n2;b\n")
    return TABLE.format(folder)


def test_a_table_of_this_host_is_read(tmp_path):
    paths = "paths: [{pattern: ./*.csv}]\n"
    for steps, expected in [
        ("- read_delimited: {delimiter: ';'}\n", {"x": [1, 2, 3], "y": ["a", "b", "c"]}),
        ("- read_delimited: {delimiter: ';'}\n- take: 2\n- keep_columns: [y]\n", {"y": ["a", "b"]}),
        ("- read_delimited: {delimiter: ';'}\n- skip: 1\n- drop_columns: y\n", {"x": [2, 3]}),
    ]:
        code = write_table(tmp_path, f"{paths}transformations:\n{steps}")
        assert run(code) == [str(expected)]
    steps = "transformations:\n- read_delimited: {delimiter: ';'}\n- filter: x\n"
    lines = write_table(tmp_path, paths + steps).splitlines()
    code = "\n    ".join(["try:", *lines]) + "\nexcept NotImplementedError as error:\n    print(error)\n"
    missing = "mltable.load() does not do the transformation filter here"
    assert run(code) == [missing + "; give the table as the job's input (type: mltable)"]


def test_lines_of_json_keep_their_values(tmp_path):
    table = "paths: [{file: ./a.json}]\ntransformations: [read_json_lines]\n"
    lines = b'{"zip":"00501","x":0.7}\n\n{"zip":"10001","x":1}\n'
    expected = {"zip": ["00501", "10001"], "x": [0.7, 1.0]}
    assert read_table(tmp_path / "good", table, {"a.json": lines}) == [str(expected)]
    told = read_table(tmp_path / "bad", table, {"a.json": b'{"x":1}\n{"x":\n'})
    assert "a.json: line 2 is no JSON: Expecting value" in told[0]


def read_table(folder: Path, table: str, files: dict[str, bytes]) -> list[str]:
    """What the table `table` over these files gives, or the error."""
    folder.mkdir()
    (folder / "MLTable").write_text(table)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    lines = TABLE.format(folder).splitlines()
    return run("\n    ".join(["try:", *lines]) + "\nexcept Exception as error:\n    print(error)\n")


HEADED = {"a.csv": b"x,y\n1,a\n", "b.csv": b"z,w\n2,b\n"}


@pytest.mark.parametrize(
    ("steps", "files", "expected"),
    [
        ("read_delimited", HEADED, {"x": [1, 2], "y": ["a", "b"]}),
        (
            "read_delimited: {header: from_first_file, partition_size: 20}",
            {"a.csv": b"x,y\n1,a\n", "b.csv": b"2,b\n"},
            {"x": [1, 2], "y": ["a", "b"]},
        ),
        (
            "read_delimited: {infer_column_types: false}",
            {"a.csv": b"x\n01\n", "b.csv": b"x\n2\n"},
            {"x": ["01", "2"]},
        ),
        ("read_delimited\n- keep_columns: [y, x]", HEADED, {"x": [1, 2], "y": ["a", "b"]}),
        ("read_delimited\n- keep_columns: []", HEADED, {"x": [1, 2], "y": ["a", "b"]}),
        (
            "read_delimited\n- convert_column_types: [{columns: x, column_type: string}]",
            HEADED,
            {"x": ["1", "2"], "y": ["a", "b"]},
        ),
        (
            "read_delimited\n- convert_column_types: [{columns: [x], column_type: boolean}]",
            {"a.csv": b"x\n1\n", "b.csv": b"x\n0\n"},
            {"x": [True, False]},
        ),
        (
            "read_delimited: {encoding: utf8bom}",
            {"a.csv": b"\xef\xbb\xbfx\n1\n", "b.csv": b"x\n2\n"},
            {"x": [1, 2]},
        ),
        (
            "read_delimited: {encoding: windows1252}",
            {"a.csv": b"x\n\x80\n", "b.csv": b"x\n\xe9\n"},
            {"x": ["\u20ac", "\u00e9"]},
        ),
        ("read_delimited: {encoding: iso88591}", {"a.csv": b"x\n\xe9\n", "b.csv": b"x\n"}, {"x": ["\u00e9"]}),
    ],
)
def test_a_table_is_read_as_an_input_is(tmp_path, steps, files, expected):
    table = f"paths: [./a.csv, {{file: b.csv}}]\ntransformations:\n- {steps}\n"
    assert read_table(tmp_path / "t", table, files) == [str(expected)]


def test_a_table_tells_what_it_does_not_do(tmp_path):
    for number, (steps, expected) in enumerate(
        [
            (
                "read_delimited: {empty_as_string: true}",
                "mltable.load() does not do empty_as_string: true here",
            ),
            ("read_delimited\n- extract_columns_from_partition_format: x", "mltable.load() does not do the"),
            ("read_delta_lake: {version_as_of: 1}", "mltable.load() does not do read_delta_lake here"),
            ("read_delimited\n- keep_columns: [q]", "keep_columns names 'q'; the columns are 'x', 'y'"),
            ("read_delimited: {encoding: klingon}", "encoding: klingon is not one of utf8"),
            ("read_delimited: {colour: red}", "mltable: read_delimited: colour is not known to prs"),
        ]
    ):
        table = f"paths: [a.csv, b.csv]\ntransformations:\n- {steps}\n"
        assert read_table(tmp_path / str(number), table, HEADED)[0].startswith(expected)
    table = "paths: [a.csv, b.csv]\ntransformations: [read_delimited]\n"
    [told] = read_table(tmp_path / "n", table, {**HEADED, "b.csv": b"z\n2\n"})
    assert "it has 1 columns, and " in told
    steps = "transformations: [{read_delimited: {include_path_column: true, path_column: p}}]\n"
    [told] = read_table(tmp_path / "p", "paths: [a.csv]\n" + steps, HEADED)
    assert told == str({"p": [str(tmp_path / "p/a.csv")], "x": [1], "y": ["a"]})
