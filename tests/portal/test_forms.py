"""Forms in a browser: jobs are submitted, resumed, resubmitted and called by them."""

from __future__ import annotations

import io
import json
import re
import tarfile

import pytest
from playwright.sync_api import Page, expect
from site_of_tests import DEADLINE, Site

SLOW = "import time\n\ndef run(mini_batch):\n    time.sleep(2)\n    return mini_batch\n"


@pytest.fixture(scope="module")
def failed(site: Site) -> str:
    """A job whose only setting that is wrong is its time limit."""
    limits = {"run_max_try": 1, "run_invocation_timeout": 1, "error_threshold": 0}
    assert site.start("too-short", 2, SLOW, limits).wait(DEADLINE) != 0
    return site.id_of("too-short")


def test_a_job_is_submitted_by_a_form_and_says_why_it_failed(site: Site, page: Page) -> None:
    code = site.folder / "form.tar.gz"
    with tarfile.open(code, "w:gz") as archive:
        for name, text in [("main.py", SLOW), ("data/a.txt", "x"), ("data/b.txt", "x")]:
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    page.goto(f"{site.url}/jobs")
    page.click("text=Submit")
    keys = {"name": "by-form", "entry_script": "main.py", "inputs": [{"type": "file", "path": "data"}]}
    keys |= {
        "mini_batch_size": 1,
        "process_count_per_node": 1,
        "run_max_try": 1,
        "run_invocation_timeout": 1,
        "error_threshold": 0,
    }
    page.fill("#job", json.dumps(keys | {"node_count": "none"}))
    page.set_input_files("#code", code)
    page.click("button:has-text('Submit')")
    expect(page.locator("[role=alert]")).to_contain_text("node_count")
    page.fill("#job", json.dumps(keys))
    page.set_input_files("#code", code)
    page.click("button:has-text('Look what would run')")
    expect(page.locator("[role=status] .says")).to_contain_text("2 mini-batches of 2 items would run")
    page.set_input_files("#code", code)
    page.click("button:has-text('Submit')")
    page.wait_for_url("**/jobs/by-form-*")
    expect(page.locator(".chip").first).to_have_text("failed", timeout=DEADLINE * 1000)
    expect(page.locator("main")).to_contain_text("run_invocation_timeout")


def test_a_folder_is_sent_as_it_is(site: Site, page: Page) -> None:
    script = "from parts.words import word\n\ndef run(mini_batch):\n    return [word] * len(mini_batch)\n"
    site.write(
        {
            "sent/main.py": script,
            "sent/parts/words.py": "word = 'of the folder'\n",
            "sent/data/deep/a.txt": "x",
            "sent/data/b.txt": "x",
        }
    )
    page.goto(f"{site.url}/submit")
    keys = {"name": "by-folder", "entry_script": "main.py", "inputs": [{"type": "file", "path": "data"}]}
    page.fill("#job", json.dumps(keys))
    page.set_input_files("#code-folder", site.folder / "sent")
    page.click("button:has-text('Submit')")
    page.wait_for_url("**/jobs/by-folder-*")
    expect(page.locator(".chip").first).to_have_text("completed", timeout=DEADLINE * 1000)
    site.run("result", page.url.rsplit("/", 1)[1], "--output-path", "by-folder")
    rows = (site.folder / "by-folder/parallel_run_step.txt").read_text()
    assert rows == "of the folder\n" * 2


def test_a_failed_job_goes_on_with_another_setting(site: Site, page: Page, failed: str) -> None:
    page.goto(f"{site.url}/jobs/{failed}")
    page.click("text=Resume…")
    expect(page.locator(".description")).to_contain_text("only what is missing or failed, in this job")
    page.fill("#set", "mini_batch_size=2")
    page.click("button:has-text('Resume the job')")
    expect(page.locator("[role=alert]")).to_contain_text("mini_batch_size")
    page.fill("#set", "run_invocation_timeout=60")
    page.click("button:has-text('Resume the job')")
    page.wait_for_url(re.compile(r"/jobs/too-short-[^/]*$"))
    expect(page.locator(".chip").first).to_have_text("completed", timeout=DEADLINE * 1000)


def test_a_job_runs_again_as_a_new_one(site: Site, page: Page, failed: str) -> None:
    page.goto(f"{site.url}/jobs/{failed}")
    page.click("text=Resubmit…")
    page.fill("#set", "run_invocation_timeout=60")
    page.fill("#name", "second")
    page.click("button:has-text('Resubmit the job')")
    page.wait_for_url("**/jobs/second-*")
    expect(page.locator(".chip").first).to_have_text("completed", timeout=DEADLINE * 1000)


def test_an_endpoint_is_called_by_a_form(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/jobs")
    page.click("text=Endpoints")
    page.click("text=letters-batch")
    expect(page.locator("h1")).to_have_text("letters-batch")
    expect(page.locator("dd code.command >> nth=2")).to_contain_text("/endpoints/letters-batch/jobs")
    page.click("text=Invoke…")
    page.click("button:has-text('Call letters-batch')")
    expect(page.locator("[role=alert]")).to_contain_text("problem")
    offered = page.locator("#registered option").evaluate_all("all => all.map(one => one.value)")
    assert "azureml:letters:1" in offered
    page.fill("[name='at.data']", "azureml:letters@latest")
    page.click("summary:has-text('Settings of this call')")
    expect(page.locator("[name='set.mini_batch_size']")).to_have_attribute("placeholder", "10")
    page.fill("[name='set.mini_batch_size']", "x")
    page.click("button:has-text('Look what would run')")
    expect(page.locator("[role=alert]")).to_contain_text("mini_batch_size")
    page.fill("[name='set.mini_batch_size']", "5")
    page.click("button:has-text('Look what would run')")
    expect(page.locator("[role=status] .says")).to_contain_text("1 mini-batches of 1 items would run")
    expect(page.locator("[name='at.data']")).to_have_value("azureml:letters@latest")
    page.click("button:has-text('Call letters-batch')")
    page.wait_for_url("**/jobs/first-*")
    expect(page.locator(".chip").first).to_have_text("completed", timeout=DEADLINE * 1000)
    page.goto(f"{site.url}/jobs?endpoint=letters-batch")
    expect(page.locator("table.jobs tbody tr")).to_have_count(1)
    page.goto(f"{site.url}/endpoints/letters-batch")
    deployed = page.locator("section[aria-labelledby=h-deployments] tbody tr")
    expect(deployed).to_contain_text("1 \u00d7 1")
    expect(deployed).to_contain_text("1 / 0 / p50")
    expect(page.locator("section[aria-labelledby=h-jobs] tbody tr")).to_have_count(1)


def test_files_come_along_with_a_call(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/endpoints/letters-batch/invoke")
    files = [{"name": f"{name}.txt", "mimeType": "text/plain", "buffer": b"x"} for name in ["a", "b", "c"]]
    page.set_input_files("[name='file.data']", files)
    page.click("summary:has-text('Settings of this call')")
    page.fill("[name='set.mini_batch_size']", "1")
    page.click("button:has-text('Call letters-batch')")
    page.wait_for_url("**/jobs/first-*")
    expect(page.locator(".chip").first).to_have_text("completed", timeout=DEADLINE * 1000)
    expect(page.locator("main")).to_contain_text("3")
    result = site.run("result", page.url.rsplit("/", 1)[1], "--output-path", "came")
    assert "came" in result
    rows = (site.folder / "came/predictions.csv").read_text().split()
    assert sorted(row.rsplit("/", 1)[-1] for row in rows) == ["a.txt", "b.txt", "c.txt"]


def test_a_folder_comes_along_with_a_call(site: Site, page: Page) -> None:
    site.write({"called/deep/a.txt": "x", "called/b.txt": "x"})
    page.goto(f"{site.url}/endpoints/letters-batch/invoke")
    page.set_input_files("[name='folder.data']", site.folder / "called")
    page.click("button:has-text('Call letters-batch')")
    page.wait_for_url("**/jobs/first-*")
    expect(page.locator(".chip").first).to_have_text("completed", timeout=DEADLINE * 1000)
    site.run("result", page.url.rsplit("/", 1)[1], "--output-path", "called-rows")
    rows = (site.folder / "called-rows/predictions.csv").read_text().split()
    assert sorted(row.rsplit("/", 1)[-1] for row in rows) == ["a.txt", "b.txt"]


TYPED = """\
type: pipeline
inputs:
  word: {type: string, default: hello}
  times: {type: integer, min: 1, max: 3, default: 2}
  loud: {type: boolean, default: false}
  text: {type: uri_file}
jobs:
  say:
    command: >-
      cat ${{inputs.text}} > ${{outputs.said}};
      echo ${{inputs.word}} ${{inputs.times}} ${{inputs.loud}}
    inputs:
      word: ${{parent.inputs.word}}
      times: ${{parent.inputs.times}}
      loud: ${{parent.inputs.loud}}
      text: ${{parent.inputs.text}}
    outputs: {said: {type: uri_file}}
"""


def test_literals_of_a_pipeline_are_asked_for_by_their_types(site: Site, page: Page) -> None:
    site.write(
        {
            "typed/component.yml": TYPED,
            "typed/deployment.yml": "type: pipeline\ncomponent: component.yml\n",
        }
    )
    site.run("endpoint", "create", "-n", "typed-batch", "-q")
    deployed = ["-f", "typed/deployment.yml", "-e", "typed-batch", "-n", "one"]
    site.run("deployment", "create", *deployed, "--set-default", "-q")
    page.goto(f"{site.url}/endpoints/typed-batch/invoke")
    times = page.locator("[name='value.times']")
    assert [times.get_attribute(name) for name in ["type", "min", "max", "step"]] == ["number", "1", "3", "1"]
    assert page.locator("[name='value.loud'] option").all_text_contents() == [
        "false, the default",
        "true",
        "false",
    ]
    times.fill("3")
    page.select_option("[name='value.loud']", "true")
    page.set_input_files(
        "[name='file.text']", {"name": "t.txt", "mimeType": "text/plain", "buffer": b"text\n"}
    )
    page.click("button:has-text('Call typed-batch')")
    page.wait_for_url("**/jobs/*")
    expect(page.locator(".chip").first).to_have_text("completed", timeout=DEADLINE * 1000)
