"""`ParallelRunConfig` and `ParallelRunStep`: azureml's names, as jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from package import job_file, prs

CONFIG = {
    "entry_script": "score.py",
    "source_directory": "code",
    "environment": None,
    "error_threshold": 10,
    "output_action": "append_row",
    "compute_target": "gpu",
    "node_count": 2,
    "process_count_per_node": 1,
    "mini_batch_size": "2",
    "description": 'Ümläuts: "quoted", # no comment',
    "logging_level": "DEBUG",
    "run_invocation_timeout": 120,
    "run_max_try": 2,
    "append_row_file_name": "scores.txt",
    "allowed_failed_count": 5,
    "allowed_failed_percent": 12.5,
    "partition_keys": None,
    "environment_variables": {"A": "b"},
}


def test_a_step_is_a_job(folder: Path):
    job_file(folder)
    config = prs.ParallelRunConfig(**CONFIG)
    step = prs.ParallelRunStep(
        name="scores",
        parallel_run_config=config,
        inputs=[Path("data")],
        output="out",
        side_inputs={"lexicon": "job.yml"},
        arguments=["--threshold", 0.5],
        allow_reuse=False,
    )
    job = prs.submit(step)
    assert job.wait().mini_batches.scheduled == 2
    assert job.result() == folder / "out/scores.txt"
    assert any("compute_target gpu, node_count 2" in note for note in job.notes)
    shown = job.show()
    assert shown["arguments"] == ["--threshold", "0.5"] and shown["allow_reuse"] is False
    assert (shown["run_invocation_timeout"], shown["allowed_failed_percent"]) == (120, 12.5)
    assert prs.submit(step, mini_batch_size=1, output="two").wait().mini_batches.scheduled == 4
    assert prs.try_batch(step).items == 2


def test_a_configuration_wants_a_name_and_inputs(folder: Path):
    job_file(folder)
    config = prs.ParallelRunConfig(entry_script="score.py", source_directory="code")
    job = prs.submit(config, name="alone", inputs=[{"type": "file", "path": "data"}])
    assert job.wait().name == "alone"
    with pytest.raises(prs.JobFileError, match="inputs"):
        prs.submit(config, name="alone")
    with pytest.raises(prs.JobFileError, match=r"parallel_run_config\.node_count: 0 is out of range"):
        wrong = prs.ParallelRunConfig(entry_script="score.py", source_directory="code", node_count=0)
        prs.submit(wrong, name="alone", inputs=[{"type": "file", "path": "data"}])


def test_a_configuration_is_saved_and_loaded(folder: Path):
    job_file(folder)
    config = prs.ParallelRunConfig(**CONFIG)
    config.save_to_yaml("config.yml")
    assert prs.ParallelRunConfig.load_yaml("config.yml") == config
    saved = yaml.safe_load(Path("config.yml").read_text())
    block = saved["parallel_run_config"]
    assert block["compute_target_name"] == "gpu" and block["description"] == CONFIG["description"]
    # As a person edits it, and as the program takes it.
    beside = {"name": "edited", "inputs": [{"type": "file", "path": "data"}]}
    Path("edited.yml").write_text(yaml.safe_dump({**saved, **beside}, allow_unicode=True))
    assert prs.ParallelRunConfig.load_yaml("edited.yml") == config
    assert prs.submit("edited.yml").wait().name == "edited"
    assert config != prs.ParallelRunConfig(entry_script="score.py")
    assert eval(repr(config), {"ParallelRunConfig": prs.ParallelRunConfig}) == config


def test_what_azureml_saved_is_loaded(folder: Path):
    Path("config.yml").write_text(
        "parallel_run_config:\n  entry_script: score.py\n  mini_batch_size: {name: size, default_value: '7'}"
        "\n"
        "  partition_keys:\n  environment:\n    name: env\n    python: {interpreterPath: sh}\n"
        "  logging_level: {default_value: }\n  compute_target_name: cpu\n"
    )
    config = prs.ParallelRunConfig.load_yaml("config.yml")
    assert config == prs.ParallelRunConfig(
        entry_script="score.py",
        mini_batch_size="7",
        compute_target="cpu",
        environment={"name": "env", "python": {"interpreterPath": "sh"}},
    )
    for text, message in [
        ("a: 1\n", "has no block"),
        ("parallel_run_config: {x: 1}\n", "'x'"),
        ("", "has no block"),
    ]:
        Path("wrong.yml").write_text(text)
        with pytest.raises(prs.UsageError, match=message):
            prs.ParallelRunConfig.load_yaml("wrong.yml")


def test_parameters_are_those_of_azureml():
    with pytest.raises(TypeError, match="node_cout"):
        prs.ParallelRunConfig(entry_script="score.py", node_cout=1)
    with pytest.raises(TypeError, match="outputs"):
        config = prs.ParallelRunConfig(entry_script="score.py")
        prs.ParallelRunStep(name="s", parallel_run_config=config, inputs=["d"], outputs="o")
    with pytest.raises(TypeError, match=r"is a prs\.ParallelRunConfig, not a dict"):
        prs.ParallelRunStep(name="s", parallel_run_config={}, inputs=["d"])
    with pytest.raises(TypeError, match="an input is a path or a mapping"):
        prs.ParallelRunStep(name="s", parallel_run_config=config, inputs=[5])
    step = prs.ParallelRunStep(name="s", parallel_run_config=config, inputs={"type": "tabular", "path": "d"})
    assert json.loads(json.dumps(step.job())) == {
        "name": "s",
        "parallel_run_config": {"entry_script": "score.py"},
        "inputs": [{"type": "tabular", "path": "d"}],
    }
