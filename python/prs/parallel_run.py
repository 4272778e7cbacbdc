"""`ParallelRunConfig` and `ParallelRunStep` with the parameter names of azureml's (SDK v1), as jobs of prs.

They only carry what they are given: the program checks it, under the same names, when the job is
submitted, and says of what has no meaning here that it has none. What azureml takes as objects of a
workspace is a path here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from prs.errors import UsageError
from prs.program import plain

_BLOCK = "parallel_run_config"
# Parameters that the saved block, as azureml writes it, has under another name.
_SAVED_AS = {"compute_target": "compute_target_name"}
_TAKEN_AS = {
    "compute_target_name": "compute_target",
    "environment_name": "environment",
    "environment_dir_path": "environment",
}

PathLike = Union[str, "os.PathLike[str]"]


class ParallelRunConfig:
    """The settings of a parallel run. Every parameter is a key of a job file, described by `prs explain KEY`
    and in docs/job-file.md, and an attribute of the object; one that is `None` is left to the program's
    default.

    Parameters are given by name. Unlike in azureml only `entry_script` has to be given. `environment` is a
    Python interpreter, or a requirements or conda file; `compute_target` is a name that workers are
    started with; `mini_batch_size` is a number of files or a size such as `"1MB"`;
    `run_invocation_timeout` is in seconds. Relative paths start from the current folder at the time of
    submission, or from the folder of the file that `save_to_yaml` wrote."""

    def __init__(
        self,
        *,
        entry_script: str,
        environment: PathLike | Mapping[str, Any] | None = None,
        error_threshold: int | None = None,
        output_action: str | None = None,
        compute_target: str | None = None,
        node_count: int | None = None,
        process_count_per_node: int | None = None,
        mini_batch_size: int | str | None = None,
        source_directory: PathLike | None = None,
        description: str | None = None,
        logging_level: str | None = None,
        run_invocation_timeout: int | None = None,
        run_max_try: int | None = None,
        append_row_file_name: str | None = None,
        allowed_failed_count: int | None = None,
        allowed_failed_percent: float | None = None,
        partition_keys: Sequence[str] | None = None,
        environment_variables: Mapping[str, str] | None = None,
    ) -> None:
        self.entry_script = entry_script
        self.environment = environment
        self.error_threshold = error_threshold
        self.output_action = output_action
        self.compute_target = compute_target
        self.node_count = node_count
        self.process_count_per_node = process_count_per_node
        self.mini_batch_size = mini_batch_size
        self.source_directory = source_directory
        self.description = description
        self.logging_level = logging_level
        self.run_invocation_timeout = run_invocation_timeout
        self.run_max_try = run_max_try
        self.append_row_file_name = append_row_file_name
        self.allowed_failed_count = allowed_failed_count
        self.allowed_failed_percent = allowed_failed_percent
        self.partition_keys = partition_keys
        self.environment_variables = environment_variables

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParallelRunConfig) and self._given() == other._given()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ParallelRunConfig({', '.join(f'{name}={value!r}' for name, value in self._given().items())})"

    def job(self) -> dict[str, Any]:
        """The job file of this configuration alone; `prs.submit` has to be given `name` and `inputs`
        beside it."""
        return {_BLOCK: self._saved()}

    def save_to_yaml(self, path: PathLike) -> None:
        """Writes it as azureml does, as the block `parallel_run_config` of a job file. With `name` and
        `inputs` beside the block `prs submit` takes the file. A file that is there is replaced."""
        lines = [
            f"  {name}: {json.dumps(value, default=plain, ensure_ascii=False)}"
            for name, value in self._saved().items()
        ]
        Path(path).write_text("\n".join([f"{_BLOCK}:", *lines, ""]), encoding="utf-8")

    @staticmethod
    def load_yaml(path: PathLike) -> ParallelRunConfig:
        """Reads what `save_to_yaml` wrote, here or in azureml; a file that azureml wrote needs PyYAML to
        be read. Other keys of a job file beside the block are left aside. A pipeline parameter stands for
        its default."""
        block = _block(Path(path))
        given: dict[str, Any] = {}
        for name, value in block.items():
            if isinstance(value, Mapping) and "default_value" in value:
                value = value["default_value"]
            if value is not None:
                given[_TAKEN_AS.get(name, name)] = value
        try:
            return ParallelRunConfig(**given)
        except TypeError as error:
            raise UsageError(f"{os.fspath(path)}: {str(error).split('() ', 1)[-1]}") from None

    def _given(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}

    def _saved(self) -> dict[str, Any]:
        return {_SAVED_AS.get(name, name): value for name, value in self._given().items()}


class ParallelRunStep:
    """A parallel run with its inputs: a job. Parameters have azureml's names and are given by name.

    Each of `inputs` is the path or URL of a file or folder, whose files are the items, or a mapping as
    `inputs` of a job file has it (`{"type": "tabular", "path": "data/*.csv"}`). `output` is the folder of
    the output. `side_inputs` is a mapping of names to paths, and `arguments` what the script gets on its
    command line. `allow_reuse=False` runs a job anew that ran before with the same code, settings and
    inputs."""

    def __init__(
        self,
        *,
        name: str,
        parallel_run_config: ParallelRunConfig,
        inputs: PathLike | Mapping[str, Any] | Sequence[PathLike | Mapping[str, Any]],
        output: PathLike | None = None,
        side_inputs: Mapping[str, Any] | None = None,
        arguments: Sequence[Any] | None = None,
        allow_reuse: bool = True,
    ) -> None:
        if not isinstance(parallel_run_config, ParallelRunConfig):
            raise TypeError(
                f"parallel_run_config is a prs.ParallelRunConfig, not a {type(parallel_run_config).__name__}"
            )
        several = [inputs] if isinstance(inputs, (str, os.PathLike, Mapping)) else list(inputs)
        for one in several:
            if not isinstance(one, (str, os.PathLike, Mapping)):
                raise TypeError(
                    f"an input is a path or a mapping such as {{'type': 'tabular', 'path': 'data'}}, "
                    f"not a {type(one).__name__}"
                )
        self.name = name
        self.parallel_run_config = parallel_run_config
        self.inputs = several
        self.output = output
        self.side_inputs = side_inputs
        self.arguments = None if arguments is None else list(arguments)
        self.allow_reuse = allow_reuse

    def __repr__(self) -> str:
        return f"<prs.ParallelRunStep {self.name}>"

    def job(self) -> dict[str, Any]:
        """Its job file."""
        inputs = [
            dict(one) if isinstance(one, Mapping) else {"type": "file", "path": one} for one in self.inputs
        ]
        document = {"name": self.name, **self.parallel_run_config.job(), "inputs": inputs}
        beside = {"output": self.output, "side_inputs": self.side_inputs, "arguments": self.arguments}
        document.update({key: value for key, value in beside.items() if value is not None})
        return document if self.allow_reuse else {**document, "allow_reuse": False}


JobLike = Union[str, "os.PathLike[str]", Mapping[str, Any], ParallelRunConfig, ParallelRunStep]


def with_settings(document: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A job file with keys set as they stand in it: those of the block stay there."""
    changed = {**document}
    for key, value in settings.items():
        block, saved = changed.get(_BLOCK), _SAVED_AS.get(key, key)
        if isinstance(block, Mapping) and saved in block:
            changed[_BLOCK] = {**block, saved: value}
        else:
            changed[key] = value
    return changed


def as_document(job: JobLike, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A job that is no file, with the settings that stand in a document as they do there, and the others,
    which name a part of a key (`environment.python`) and are the program's to understand.

    Raises TypeError where `job` is nothing that describes one."""
    described: Mapping[str, Any]
    if isinstance(job, (ParallelRunConfig, ParallelRunStep)):
        described = job.job()
    elif isinstance(job, Mapping):
        described = job
    else:
        raise TypeError(
            "a job is the path of a job file, a mapping, a ParallelRunConfig or a ParallelRunStep, "
            f"not a {type(job).__name__}"
        )
    whole = with_settings(described, {key: value for key, value in settings.items() if "." not in key})
    return dict(whole), {key: value for key, value in settings.items() if "." in key}


def _block(path: Path) -> Mapping[str, Any]:
    """The block of a file."""
    text = path.read_text(encoding="utf-8")
    block = _own_block(text)
    if block is None:
        try:
            import yaml
        except ModuleNotFoundError:
            raise ImportError(
                f"{path} is YAML that save_to_yaml of prs did not write: pip install pyyaml"
            ) from None
        document = yaml.safe_load(text)
        block = document.get(_BLOCK) if isinstance(document, Mapping) else None
    if not isinstance(block, Mapping):
        raise UsageError(
            f"{path} has no block {_BLOCK}: give a file that ParallelRunConfig.save_to_yaml wrote"
        )
    return block


def _own_block(text: str) -> dict[str, Any] | None:
    """The block of a text that `save_to_yaml` wrote; `None` for any other."""
    first, *lines = text.splitlines() or [""]
    if first != f"{_BLOCK}:":
        return None
    block = {}
    for line in lines:
        found = re.fullmatch(r"  (\w+): (.*)", line)
        try:
            block.update({found[1]: json.loads(found[2])} if found else {})
        except ValueError:
            return None
        if found is None:
            return None
    return block
