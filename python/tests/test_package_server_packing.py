"""What goes along with a job to a server: all that it names of this machine, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable

import pytest
from package import NAMES, job_file, keys_of_job, prs

Packer = prs.server.packing.Packer
NAMES_OF_FILES = ["000.txt", "001.txt", "002.txt", "003.txt"]


@pytest.fixture
def at(folder: Path, serve: Callable[..., Any]) -> Any:
    """A server."""
    return prs.connect(serve().url)


def rows(job: Any) -> list[str]:
    """The rows of a job, once it has ended."""
    job.wait()
    return list(job.result().read_text().splitlines())


def sent(folder: Path, job: Any) -> list[str]:
    """The files that came with a job."""
    top = folder / "prs-runs" / job.id / "sent/code"
    return sorted(path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file())


def test_a_mapping_starts_from_the_current_folder(folder: Path, at: Any):
    job_file(folder)
    job = at.submit({**keys_of_job(), "inputs": [{"type": "file", "path": Path("data")}]}, mini_batch_size=2)
    assert rows(job) == NAMES_OF_FILES and job.status().mini_batches.scheduled == 2


def test_absolute_paths_of_a_mapping_come_along(folder: Path, at: Any, monkeypatch: pytest.MonkeyPatch):
    job_file(folder)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    keys = {
        **keys_of_job(),
        "source_directory": folder / "code",
        "inputs": [{"type": "file", "path": f"{folder}/data/"}],
    }
    job = at.submit(keys)
    assert rows(job) == NAMES_OF_FILES
    assert "sent/0/code/score.py" in sent(folder, job) or "sent/1/code/score.py" in sent(folder, job)
    pattern = {**keys, "inputs": [{"type": "file", "path": str(folder / "data/00[12].txt")}]}
    assert rows(at.submit(pattern)) == ["001.txt", "002.txt"]
    # Everything of the folder that a mapping starts in would be code without one.
    assert "nothing.py" not in sent(folder, job)


def test_a_step_and_a_configuration_are_handed_in(folder: Path, at: Any):
    job_file(folder)
    config = prs.ParallelRunConfig(
        source_directory="code",
        entry_script="score.py",
        mini_batch_size="1",
        output_action="append_row",
        node_count=1,
    )
    step = prs.ParallelRunStep(name="step", parallel_run_config=config, inputs=["data"])
    assert rows(at.submit(step)) == NAMES_OF_FILES


def test_paths_beside_and_above_the_job_file(folder: Path, at: Any):
    job_file(folder)
    (folder / "jobs").mkdir()
    text = (folder / "job.yml").read_text()
    text = text.replace("source_directory: code", "source_directory: ../code").replace("'data'", "'../data'")
    (folder / "jobs/job.yml").write_text(text.replace('"path": "data"', '"path": "../data"'))
    job = at.submit("jobs/job.yml")
    assert rows(job) == NAMES_OF_FILES
    assert sent(folder, job) == ["code/score.py", *(f"data/{name}" for name in NAMES_OF_FILES)]


def test_absolute_paths_of_a_job_file(folder: Path, at: Any):
    path = job_file(folder)
    text = path.read_text()
    path.write_text(text.replace("'path': 'data'", f"'path': '{folder}/data'"))
    assert str(folder) in path.read_text()
    assert rows(at.submit(path)) == NAMES_OF_FILES
    path.write_text(text.replace("'path': 'data'", f"'path': '{folder}/data/002.txt'"))
    assert rows(at.submit(path)) == ["002.txt"]
    path.write_text(text.replace("source_directory: code", f"source_directory: {folder}/code"))
    with pytest.raises(prs.UsageError, match=r"job\.yml:2: source_directory: .* is absolute"):
        at.submit(path)


def test_code_is_what_the_ignore_file_leaves(folder: Path, at: Any):
    path = job_file(folder)
    code = folder / "code"
    for name in (
        "keep.bin",
        "drop.bin",
        "big/a",
        "pkg/m.py",
        "pkg/__pycache__/m.pyc",
        "env/pyvenv.cfg",
        "env/x.py",
    ):
        (code / name).parent.mkdir(exist_ok=True, parents=True)
        (code / name).write_text("x")
    os.symlink("nowhere", code / "dangling")
    (code / ".prsignore").write_text("*.bin\n!keep.bin\nbig/\ndangling\n")
    (code / ".gitignore").write_text("pkg\n")
    job = at.submit(path)
    assert rows(job) == NAMES_OF_FILES
    found = [name for name in sent(folder, job) if name.startswith("code/")]
    assert found == [
        "code/.gitignore",
        "code/.prsignore",
        "code/keep.bin",
        "code/pkg/m.py",
        "code/score.py",
    ]
    (code / ".prsignore").write_text("{b\n")
    with pytest.raises(prs.UsageError, match=r"\.prsignore.* line 1"):
        at.submit(path)
    (code / ".prsignore").write_text("")
    with pytest.raises(prs.UsageError, match="dangling cannot go along with the job: the link leads nowhere"):
        at.submit(path)
    (code / "dangling").unlink()
    os.symlink("..", code / "big/loop")
    with pytest.raises(prs.UsageError, match="leads back"):
        at.submit(path)


def test_what_the_program_packs_is_what_a_server_gets(folder: Path, at: Any, monkeypatch: pytest.MonkeyPatch):
    """The code of a job is the same, whichever way it was handed in."""
    from package import PROGRAM

    path = job_file(folder)
    (folder / "code/pkg").mkdir()
    for name in ("pkg/a.py", "pkg/b.txt", "c.csv", "d e.py", "é.py"):
        (folder / "code" / name).write_text("x")
    (folder / "code/run.sh").write_text("#!/bin/sh\n")
    (folder / "code/run.sh").chmod(0o755)
    (folder / "code/.amlignore").write_text("*.csv\n# c\n/pkg/*.txt\n")
    there = at.submit(path)
    there.wait()
    monkeypatch.setenv("PRS_PROGRAM", str(PROGRAM))
    here = prs.submit(path, allow_reuse=False, server=False)
    here.wait()
    assert there.wait().reused_from is None
    archives = [sorted((folder / "prs-runs" / job.id).glob("code*/*")) for job in (here, there)]
    names = [[one.name for one in found] for found in archives]
    assert names[0] and names[0] == names[1], "the archives have the same checksum in their names"


def test_patterns_side_inputs_and_texts_come_along(folder: Path, at: Any):
    script = """\
    import os
    from pathlib import Path
    from azureml_user.parallel_run import EntryScript

    def run(mini_batch):
        return [Path(path).name for path in mini_batch]
    """
    path = job_file(folder, script)
    (folder / "data/other.csv").write_text("x")
    (folder / "model").mkdir()
    (folder / "model/m.bin").write_text("m")
    path.write_text(
        path.read_text().replace("'path': 'data'", "'path': 'data/*.txt'") + "side_inputs: {m: model}\n"
    )
    job = at.submit(path)
    assert rows(job) == NAMES_OF_FILES
    found = sent(folder, job)
    assert "model/m.bin" in found and "data/other.csv" not in found and "job.yml" not in found


def test_a_job_file_of_azure_and_its_component(folder: Path, at: Any):
    job_file(folder)
    (folder / "parts").mkdir()
    (folder / "parts/score.yml").write_text(
        "name: score\ntype: parallel\ninputs: {files: {type: uri_folder}}\n"
        "outputs: {rows: {type: uri_file}}\n"
        "input_data: ${{inputs.files}}\nmini_batch_size: '1'\n"
        "task: {type: run_function, code: ../code, entry_script: score.py, "
        "append_row_to: '${{outputs.rows}}'}\n"
    )
    (folder / "flow.yml").write_text(
        "type: pipeline\ninputs: {files: {type: uri_folder, path: ./data}}\n"
        "outputs: {rows: {type: uri_file}}\n"
        "jobs:\n  score:\n    type: parallel\n    component: file:./parts/score.yml\n"
        '    inputs: {files: "${{parent.inputs.files}}"}\n    outputs: {rows: "${{parent.outputs.rows}}"}\n'
    )
    job = at.submit("flow.yml")
    assert job.wait().complete
    assert sorted(job.result().read_text().splitlines()) == NAMES_OF_FILES
    elsewhere = folder / "more"
    elsewhere.mkdir()
    (elsewhere / "x.txt").write_text("x")
    other = at.submit("flow.yml", **{"inputs.files.path": "more"})
    assert rows(other) == ["x.txt"]


def test_code_and_data_in_the_folder_of_the_job_file(folder: Path, at: Any):
    job_file(folder)
    (folder / "score.py").write_text((folder / "code/score.py").read_text())
    (folder / ".prsignore").write_text("data/\nprs-runs/\nrun/\n")
    (folder / "flat.yml").write_text(
        "name: flat\nentry_script: score.py\nmini_batch_size: 1\ninputs: [{type: file, path: data}]\n"
    )
    job = at.submit("flat.yml")
    assert rows(job) == NAMES_OF_FILES
    found = sent(folder, job)
    assert "score.py" in found and "data/000.txt" in found and "prs-runs" not in str(found)


def test_what_is_too_large_is_refused_before_it_is_sent(
    folder: Path, at: Any, monkeypatch: pytest.MonkeyPatch
):
    path = job_file(folder)
    (folder / "data/huge").touch()
    os.truncate(folder / "data/huge", 600 << 20)
    with pytest.raises(prs.UsageError, match=r"more than 512 MiB \(data/ 600 MiB.*--allow-path"):
        at.submit(path)
    assert at.jobs() == []


def test_a_folder_that_the_server_shares_stays_where_it_is(folder: Path, serve: Callable[..., Any]):
    path = job_file(folder, NAMES)
    at = prs.connect(serve("--allow-path", str(folder / "data")).url)
    path.write_text(path.read_text().replace("'path': 'data'", f"'path': '{folder}/data'"))
    job = at.submit(path)
    assert rows(job) == NAMES_OF_FILES and sent(folder, job) == ["code/score.py"]
