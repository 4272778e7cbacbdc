"""The pages of a fleet: no worker, one that comes, is asked to leave; and a ledger that stops."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from site_of_tests import AXE, DEADLINE, PROGRAM, RULES, Site, wait_until


class Fleet:
    """RabbitMQ, Redis and an S3 server, and workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers = subprocess.Popen(
            [PROGRAM.with_name("fleet-servers")],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.environment: dict[str, str] = {}
        assert self.servers.stdout is not None
        while (line := self.servers.stdout.readline()) != "ready\n":
            found = re.fullmatch(r"export (\w+)='(.*)'\n", line)
            assert found, line
            self.environment[found[1]] = found[2]

    def ledger(self) -> int:
        """The process of the ledger."""
        port = self.environment["PRS_REDIS_URL"].rsplit(":", 1)[1].split("/")[0]
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            except OSError:
                continue
            if "redis-server" in command and int(parent) == self.servers.pid and port in command:
                return int(entry.name)
        raise AssertionError("there is no ledger")

    def worker(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        command = [
            PROGRAM.with_name("prs-worker"),
            "--name",
            name,
            "--work-dir",
            self.folder / name,
            *options,
        ]
        environment = os.environ | self.environment
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def close(self) -> None:
        assert self.servers.stdin is not None
        self.servers.stdin.close()
        self.servers.wait(DEADLINE)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    yield fleet
    fleet.close()


@pytest.fixture(scope="module")
def served(fleet: Fleet) -> Iterator[Site]:
    site = Site(fleet.folder, fleet.environment)
    yield site
    assert site.stop() == 0


@pytest.fixture
def page(served: Site, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(DEADLINE * 1000)
    page.goto(served.new_link())
    page.wait_for_url("**/jobs")
    yield page
    context.close()


def looks_well(page: Page, path: str) -> None:
    """At both widths and in both colours, as on the other pages."""
    page.goto(path)
    for width, scheme in [(1280, "light"), (320, "dark")]:
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.evaluate(AXE)
        found = page.evaluate("rules => axe.run(document, { runOnly: rules })", RULES)
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]] == [], path
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), path
    page.set_viewport_size({"width": 1280, "height": 800})


def test_a_fleet_says_that_no_worker_comes_and_who_came(fleet: Fleet, served: Site, page: Page) -> None:
    page.get_by_role("link", name="Fleet", exact=True).click()
    expect(page.locator(".empty").first).to_contain_text("No job and no worker")
    looks_well(page, f"{served.url}/fleet")
    submitted = served.start("waits", 40)
    row = page.locator("tr", has_text="default").first
    page.goto(f"{served.url}/fleet")
    expect(row).to_contain_text("No worker", timeout=DEADLINE * 1000)
    expect(row).to_contain_text("prs worker")
    looks_well(page, f"{served.url}/fleet/default")
    # The page finds by itself who comes.
    page.goto(f"{served.url}/fleet")
    worker = fleet.worker("first")
    expect(page.locator("tr", has_text="first")).to_be_visible(timeout=DEADLINE * 1000)
    picture = page.locator("#workers-by-state .walk")
    picture.focus()
    page.keyboard.press("ArrowRight")
    expect(picture.locator(".said")).to_have_text(re.compile("^1 (idle|serving)$"))
    job = served.id_of("waits")
    page.goto(f"{served.url}/jobs/{job}")
    expect(page.locator(".counts").first).to_contain_text("failed", timeout=DEADLINE * 1000)
    page.goto(f"{served.url}/fleet")
    page.click("a[href^='/workers/first']")
    expect(page.locator("h1")).to_contain_text("first")
    looks_well(page, page.url)
    page.click("text=Drain this worker")
    looks_well(page, page.url)
    page.click("main button")
    assert worker.wait(DEADLINE) == 0
    served.run("cancel", job)
    submitted.wait(DEADLINE)


def test_a_ledger_that_stops_leaves_the_page_as_it_was(fleet: Fleet, served: Site, page: Page) -> None:
    worker = fleet.worker("second")
    submitted = served.start("goes-on", 400)
    job = served.id_of("goes-on")
    page.goto(f"{served.url}/jobs/{job}")
    counts = page.locator(".counts").first
    expect(counts).to_contain_text("failed", timeout=DEADLINE * 1000)
    expect(page.locator("[data-state]")).to_have_text("live")
    ledger = fleet.ledger()
    os.kill(ledger, signal.SIGSTOP)
    try:
        # Either nothing comes any more, or what comes from storage says how old it is.
        says = page.locator("main")
        old = re.compile("Not new|Nobody has watched")
        expect(says).to_contain_text(old, timeout=DEADLINE * 1000)
        assert counts.text_content(), "what was seen stays"
    finally:
        os.kill(ledger, signal.SIGCONT)
    expect(page.locator("[data-state]")).to_have_text("live", timeout=DEADLINE * 1000)
    before = counts.text_content()
    wait_until(lambda: counts.text_content() != before, "it is new again")
    served.run("cancel", job)
    submitted.wait(DEADLINE)
    worker.terminate()
    worker.wait(DEADLINE)
