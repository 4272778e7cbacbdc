"""The pages in a browser, as people use them: with the keyboard, while a job runs, narrow and dark.

Needs `PRS_TEST_BIN_DIR`, the folder with the built programs; `PRS_TEST_CHROMIUM`, the browser; and
`PRS_TEST_AXE`, the file axe.min.js of axe-core.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

PROGRAM = Path(os.environ["PRS_TEST_BIN_DIR"]) / "prs"
AXE = Path(os.environ["PRS_TEST_AXE"]).read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]
# Seconds for anything that takes a moment.
DEADLINE = 60.0

SCRIPT = """\
import os, time

def run(mini_batch):
    time.sleep(0.2)
    print("batch of", len(mini_batch))
    number = int(os.path.basename(mini_batch[0])[1:4])
    if number % 7 == 3:
        raise ConnectionError("upstream API returned <503>")
    return list(mini_batch)
"""


DEPLOYMENT = """\
type: model
model: {path: model}
code_configuration: {code: src, scoring_script: score.py}
environment: local
"""


class Site:
    """A folder with jobs, and a server in front of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"XDG_RUNTIME_DIR": str(folder), "XDG_CONFIG_HOME": "/dev/null"}
        command = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "-o", "json"]
        self.server = subprocess.Popen(
            command, cwd=folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        assert self.server.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            text += self.server.stdout.readline()
        told = json.loads(text)
        self.url, self.link = told["url"], told["link"]

    def start(self, name: str, files: int) -> subprocess.Popen[str]:
        """Submits a job; some of its mini-batches fail."""
        folder = self.folder / name
        (folder / "data").mkdir(parents=True)
        (folder / "main.py").write_text(SCRIPT)
        for number in range(files):
            (folder / f"data/f{number:03}.txt").write_text("x")
        keys = {"name": name, "entry_script": "main.py", "inputs": [{"type": "file", "path": "data"}]}
        keys |= {"mini_batch_size": 1, "process_count_per_node": 1, "run_max_try": 1, "error_threshold": 1000}
        (folder / "job.yml").write_text(json.dumps(keys))
        command = [PROGRAM, "submit", f"{name}/job.yml", "-q", "--id-file", f"{name}/id"]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, text=True
        )

    def deploy(self, endpoint: str) -> None:
        """Makes an endpoint whose deployment is called `first`, and registers data as `letters`."""
        folder = self.folder / endpoint
        for name, text in [
            ("src/score.py", "def run(batch):\n    return batch\n"),
            ("model/weights", "1"),
            ("letters/a.txt", "a"),
            ("deployment.yml", DEPLOYMENT),
        ]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        file = f"{endpoint}/deployment.yml"
        for command in [
            ["endpoint", "create", "-n", endpoint, "--set", "description=Says what it is given."],
            ["deployment", "create", "-f", file, "-e", endpoint, "-n", "first", "--set-default"],
            ["dataset", "create", "--name", "letters", "--path", f"{endpoint}/letters"],
        ]:
            subprocess.run(
                [PROGRAM, *command, "-q"],
                cwd=self.folder,
                env=self.environment,
                check=True,
                capture_output=True,
            )

    def id_of(self, name: str) -> str:
        """The id of a job, as soon as it has one."""
        path = self.folder / name / "id"
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"{name} has an id")
        return path.read_text().strip()


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"))
    try:
        assert site.start("ended", 10).wait(DEADLINE) == 0
        site.deploy("letters-batch")
        yield site
    finally:
        site.server.send_signal(signal.SIGTERM)
    assert site.server.wait(DEADLINE) == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ["PRS_TEST_CHROMIUM"], args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def session(site: Site, browser: Browser) -> BrowserContext:
    """A browser that the link has logged in."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(site.link)
    page.wait_for_url("**/jobs")
    page.close()
    return context


@pytest.fixture
def page(site: Site, session: BrowserContext) -> Iterator[Page]:
    """A page that says nothing on its console, and asks this server alone."""
    page = session.new_page()
    said: list[str] = []
    asked: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        said.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.set_default_timeout(DEADLINE * 1000)
    yield page
    page.close()
    assert said == [] and all(url.startswith(site.url) for url in asked), (said, asked)


def test_a_job_that_runs_is_kept_new_followed_and_canceled(site: Site, page: Page) -> None:
    program = site.start("running", 300)
    job = site.id_of("running")
    page.goto(f"{site.url}/jobs")
    expect(page.locator(f"a[href='/jobs/{job}']")).to_be_visible()
    page.click(f"a[href='/jobs/{job}']")
    expect(page.locator("[data-state]")).to_have_text("live")
    counts = page.locator(".counts").first
    before = counts.text_content()
    wait_until(lambda: counts.text_content() != before, "the counts grow")
    # What the reader points at stays as it is.
    page.hover("h1")
    held = page.locator(".times").first.text_content()
    time.sleep(2.5)
    assert page.locator(".times").first.text_content() == held
    page.mouse.move(1, 1)
    wait_until(lambda: page.locator(".times").first.text_content() != held, "it is new again")
    page.goto(f"{site.url}/jobs/{job}/logs/user/stdout/0/process000.stdout.txt")
    page.click("[data-follow]")
    lines = page.locator(".l").count()
    wait_until(lambda: page.locator(".l").count() > lines, "the log grows")
    page.goto(f"{site.url}/jobs/{job}")
    page.click("text=Cancel…")
    page.click("button:has-text('Cancel the job')")
    page.wait_for_url(f"**/jobs/{job}")
    expect(page.locator(".chip").first).to_have_text("canceled")
    expect(page.locator("text=Cancel…")).to_have_count(0)
    assert program.wait(DEADLINE) == 130


def test_the_first_screen_of_a_job_with_missing_items_names_the_cause(site: Site, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(f"{site.url}/jobs?state=incomplete")
    page.click("table.jobs a")
    cause = page.locator(".attention .says").first
    expect(cause).to_contain_text(
        "1 item is missing from the result: ConnectionError: upstream API returned <503>"
    )
    box = cause.bounding_box()
    assert box is not None and box["y"] + box["height"] < 720
    page.click("text=user/error/0/process000.txt")
    expect(page.locator("pre.log")).to_contain_text("ConnectionError: upstream API returned <503>")
    page.click("text=Output")
    expect(page.locator("pre.log")).to_contain_text("f000.txt")
    with page.expect_download() as download:
        page.click("a:has-text('parallel_run_step.txt') >> nth=0")
    assert len(download.value.path().read_text().splitlines()) == 9


def test_an_error_leads_to_its_mini_batch_and_what_that_printed(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/jobs/{site.id_of('ended')}")
    page.click("text=mini-batches lost")
    page.click("table tbody a >> nth=0")
    page.wait_for_url("**/mini-batches/3")
    expect(page.locator("h1")).to_have_text("Mini-batch 3")
    expect(page.locator("pre.log").first).to_contain_text("ConnectionError: upstream API returned <503>")
    printed = page.locator("h3:has-text('Standard output') + pre").first
    expect(printed).to_have_text(re.compile("batch of 1"))
    page.click("text=In the log >> nth=0")
    expect(page.locator("pre.log")).to_contain_text("batch of 1")
    page.go_back()
    page.click("nav.tabs >> text=Mini-batches")
    page.select_option("#state", "all")
    page.fill("#index", "4-6")
    page.click("button:has-text('Show')")
    expect(page.locator("table tbody tr")).to_have_count(3)
    assert "index=4-6" in page.url


def test_a_frame_of_a_traceback_leads_to_the_line_of_the_code(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/jobs/{site.id_of('ended')}")
    page.click("p.place a")
    page.wait_for_url(re.compile(r"/code/main\.py#L8$"))
    expect(page.locator(".l:target")).to_contain_text("raise ConnectionError")
    page.click("text=All files")
    expect(page.locator("table.jobs")).to_contain_text("main.py")


def test_only_what_an_error_cost_is_resumed_after_it_is_said(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/jobs/{site.id_of('ended')}")
    page.click("text=Resume only these…")
    expect(page.locator("[role=note]").first).to_contain_text("What other errors cost stays as it is")


def test_jobs_are_searched_with_words_selected_and_compared(site: Site, page: Page) -> None:
    job = site.id_of("ended")
    page.goto(f"{site.url}/jobs")
    page.fill("#words", "state:incomplete name:ended since:1d")
    page.click("main button:has-text('Search')")
    expect(page.locator("table.jobs tbody tr")).to_have_count(1)
    expect(page.locator("#words")).to_have_value("state:incomplete name:ended since:1d")
    page.check(f"input[value='{job}']")
    page.click("button:has-text('Resubmit…')")
    expect(page.locator("h1")).to_have_text("Resubmit 1 job?")
    page.click("button:has-text('Resubmit 1 job')")
    page.click("td.says a")
    expect(page.locator(".chip").first).to_have_text(re.compile("completed"), timeout=DEADLINE * 1000)
    page.click("text=Compare…")
    page.click(f"a[href$='b={job}']")
    expect(page.locator("h1")).to_have_text("Compare jobs")
    expect(page.locator("text=Both ran the same code.")).to_be_visible()


def test_rows_of_the_list_change_in_their_places(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/jobs")
    expect(page.locator("[data-newer]")).to_be_hidden()
    program = site.start("later", 4)
    job = site.id_of("later")
    expect(page.locator("[data-newer]")).to_be_visible(timeout=DEADLINE * 1000)
    assert page.locator(f"tr[data-row='{job}']").count() == 0, "nothing jumps"
    page.click("[data-newer]")
    row = page.locator(f"tr[data-row='{job}']")
    expect(row).to_contain_text("completed", timeout=DEADLINE * 1000)
    assert program.wait(DEADLINE) == 0


def test_text_is_found_in_the_logs(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/jobs/{site.id_of('ended')}/logs")
    page.fill("#text", "UPSTREAM api")
    page.click("button:has-text('Search')")
    expect(page.locator("mark").first).to_have_text("upstream API")
    expect(page.locator("#h-found + .note")).to_contain_text("read of")
    page.click("section[aria-labelledby=h-found] a >> nth=0")
    expect(page.locator(".l:target")).to_contain_text("upstream API")
    page.goto(f"{site.url}/jobs/{site.id_of('ended')}/logs?q=nothing-like-it")
    expect(page.locator(".empty").first).to_contain_text("No log has that in it")


def test_the_list_is_searched_with_the_keyboard_and_its_address_is_its_state(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/jobs")
    page.keyboard.press("/")
    page.keyboard.type("503")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=503")
    expect(page.locator("table.jobs tbody tr")).to_have_count(1)
    page.goto(f"{site.url}/jobs?q=nothing-like-it")
    expect(page.locator(".empty")).to_contain_text("No job fits")
    page.go_back()
    expect(page.locator("#q")).to_have_value("503")


def test_a_job_is_submitted_by_a_form_fails_and_goes_on_with_another_setting(site: Site, page: Page) -> None:
    code = site.folder / "form.tar.gz"
    script = "import time\n\ndef run(mini_batch):\n    time.sleep(2)\n    return mini_batch\n"
    with tarfile.open(code, "w:gz") as archive:
        for name, text in [("main.py", script), ("data/a.txt", "x"), ("data/b.txt", "x")]:
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
    page.reload()
    page.click("text=Resume…")
    expect(page.locator(".description")).to_contain_text("only what is missing or failed, in this job")
    page.fill("#set", "mini_batch_size=2")
    page.click("button:has-text('Resume the job')")
    expect(page.locator("[role=alert]")).to_contain_text("mini_batch_size")
    page.fill("#set", "run_invocation_timeout=60")
    page.click("button:has-text('Resume the job')")
    page.wait_for_url(re.compile(r"/jobs/by-form-[^/]*$"))
    expect(page.locator(".chip").first).to_have_text("completed", timeout=DEADLINE * 1000)
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
    expect(page.locator("pre").first).to_contain_text("/endpoints/letters-batch/jobs")
    page.click("button:has-text('Call letters-batch')")
    expect(page.locator("[role=alert]")).to_contain_text("problem")
    page.fill("#input", "azureml:letters@latest")
    page.select_option("#deployment", "first")
    page.click("button:has-text('Call letters-batch')")
    page.wait_for_url("**/jobs/first-*")
    expect(page.locator(".chip").first).to_have_text("completed", timeout=DEADLINE * 1000)
    page.goto(f"{site.url}/jobs?endpoint=letters-batch")
    expect(page.locator("table.jobs tbody tr")).to_have_count(1)


def test_who_logs_out_is_out(site: Site, browser: Browser) -> None:
    command = [PROGRAM, "serve", "--link", "--listen", site.url.removeprefix("http://")]
    link = subprocess.run(
        command, cwd=site.folder, env=site.environment, capture_output=True, text=True, check=True
    )
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{site.url}/jobs")
    assert re.search(r"/login\?next=%2Fjobs$", page.url)
    page.goto(link.stdout.strip())
    page.wait_for_url("**/jobs")
    page.click("text=Log out")
    page.wait_for_url("**/login")
    page.goto(f"{site.url}/jobs")
    assert "/login" in page.url
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 320])
def test_pages_can_be_used_by_everybody(
    site: Site, browser: Browser, session: BrowserContext, scheme: str, width: int
) -> None:
    job = site.id_of("ended")
    state = session.storage_state()
    # The policy of the pages keeps out what is no part of them, this test's script too.
    context = browser.new_context(
        bypass_csp=True,
        color_scheme="dark" if scheme == "dark" else "light",
        storage_state=state,
        viewport={"width": width, "height": 800},
    )
    page = context.new_page()
    tabs = [
        f"/jobs/{job}{tab}"
        for tab in ["", "/logs", "/output", "/settings", "/remove", "/resume", "/resubmit"]
    ]
    others = [
        "/jobs",
        "/jobs?q=nothing",
        f"/compare?a={job}&b={job}",
        f"/compare?a={job}",
        "/submit",
        "/endpoints",
        "/endpoints/letters-batch",
        "/api",
        "/problems",
        "/problems/forbidden",
        "/login",
        "/nothing",
    ]
    tabs += [
        f"/jobs/{job}{tab}"
        for tab in [
            "/code",
            "/code/main.py",
            "/graph",
            "/nodes",
            "/mini-batches",
            "/mini-batches?state=all",
            "/mini-batches/3",
        ]
    ]
    tabs += [f"/jobs/{job}/logs?q=upstream"]
    wrong = []
    for path in [*others, *tabs]:
        page.goto(site.url + path)
        page.evaluate(AXE)
        found = page.evaluate("rules => axe.run(document, { runOnly: rules })", RULES)
        wrong += [f"{path}: {one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wrong.append(f"{path}: scrolls sideways")
    context.close()
    assert wrong == []
