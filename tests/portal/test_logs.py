"""Logs in a browser: windows of large ones, a search, and following one that grows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from site_of_tests import DEADLINE, Site, wait_until

SIZE = 1 << 30
LINE = "2026-11-21 12:58:01 INFO  batch of 20 items, number %011d\n"


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


@pytest.fixture
def growing(site: Site) -> Iterator[tuple[str, Path]]:
    """A job that runs, and a log of it as large as a gibibyte."""
    program = site.start(
        "large", 1, "import time\n\ndef run(batch):\n    time.sleep(600)\n", {"run_invocation_timeout": 900}
    )
    job = site.id_of("large")
    logs = site.folder / "prs-runs" / job / "logs"
    wait_until(lambda: (logs / "user/stdout/0").is_dir(), "the job writes logs")
    path = logs / "user/stdout/0/large.stdout.txt"
    piece = "".join(LINE % number for number in range(1 << 14)).encode()
    with path.open("wb") as log:
        while log.tell() < SIZE:
            log.write(piece)
    yield job, path
    site.run("cancel", job)
    program.wait(DEADLINE)
    path.unlink()


def test_a_log_of_a_gibibyte_is_read_followed_searched_and_downloaded(
    site: Site, page: Page, growing: tuple[str, Path]
) -> None:
    job, path = growing
    address = f"{site.url}/jobs/{job}/logs/user/stdout/0/large.stdout.txt"
    page.goto(f"{address}?at=0")
    expect(page.locator(".l").first).to_contain_text("number 00000000000")
    expect(page.locator(".window .note")).to_contain_text("1.1 GB")
    page.click("nav.pages >> text=Later")
    expect(page.locator("nav.pages")).to_contain_text("Earlier")
    assert re.search(r"at=[1-9]\d+$", page.url)
    page.keyboard.press("<")
    expect(page.locator("nav.pages")).not_to_contain_text("Earlier")
    page.keyboard.press(">")
    expect(page.locator("nav.pages")).not_to_contain_text("Later")
    part = page.locator("text=download this window").get_attribute("href")
    given = page.request.get(site.url + (part or ""))
    assert given.status == 200 and "attachment" in given.headers["content-disposition"]
    assert 100_000 < len(given.body()) <= 256 << 10
    page.goto(f"{address}?at=0")
    # From the beginning one follows from the end on.
    page.click("[data-follow]")
    page.wait_for_url("**#follow")
    expect(page.locator("[data-follow]")).to_have_text("Stop following")
    with path.open("a") as log:
        log.write("the first that is new\n")
    expect(page.locator(".l").last).to_have_text("the first that is new")
    assert page.evaluate("innerHeight + scrollY >= document.documentElement.scrollHeight - 40")
    # Who reads further up is left there, and told.
    page.evaluate("scrollTo(0, 0)")
    lines = page.locator(".l").count()
    with path.open("a") as log:
        log.write("the second\nthe third\n")
    expect(page.locator("[data-more]")).to_have_text("2 new lines")
    assert page.locator(".l").count() == lines
    page.click("[data-more]")
    expect(page.locator(".l").last).to_have_text("the third")
    assert page.locator(".l").count() <= 2000
    # A search says how far it came, and goes on from there.
    page.fill("#text", "no such line")
    page.select_option("#scope", index=1)
    page.click("main button:has-text('Search')")
    expect(page.locator("#h-found + .note")).to_contain_text("MB read of 1.1 GB")
    page.click("text=Search on")
    expect(page.locator("#h-found + .note")).to_contain_text("MB read of 1.1 GB")
    raw = page.request.get(
        f"{site.url}/api/v1/jobs/{job}/logs/user/stdout/0/large.stdout.txt?download=true",
        headers={"range": "bytes=0-99"},
    )
    assert raw.status == 206 and "attachment" in raw.headers["content-disposition"]
    page.goto(address)
    assert page.evaluate("document.documentElement.outerHTML.length") < 2_000_000


def test_the_logs_of_a_node_are_followed_together(site: Site, page: Page) -> None:
    program = site.start("together", 1, "import time\n\ndef run(batch):\n    time.sleep(600)\n")
    job = site.id_of("together")
    folder = site.folder / "prs-runs" / job / "logs/user/stdout/0"
    wait_until(folder.is_dir, "the job writes logs")
    logs = [folder / f"process00{number}.stdout.txt" for number in [7, 8]]
    for log in logs:
        log.write_text(f"old of {log.name}\n")
    page.goto(f"{site.url}/jobs/{job}/logs")
    page.select_option("#kind", "stdout")
    page.fill("#node", "0")
    page.click("button:has-text('Find')")
    page.click("text=Follow these")
    page.wait_for_url("**follow=true#follow")
    lines = page.locator("[data-lines] .l")
    for log, number in zip(logs, [7, 8], strict=True):
        expect(lines.filter(has_text="old of " + log.name)).to_contain_text(f"0/process00{number}.stdout")
        with log.open("a") as grown:
            grown.write(f"new in {log.name}\n")
    for log in logs:
        expect(lines.filter(has_text="new in " + log.name)).to_have_count(1)
    # Who stops and goes on hears nothing twice.
    page.click("[data-follow]")
    with logs[0].open("a") as grown:
        grown.write("one more\n")
    page.click("[data-follow]")
    expect(lines.filter(has_text="one more")).to_have_count(1)
    expect(lines.filter(has_text="old of process007")).to_have_count(1)
    site.run("cancel", job)
    program.wait(DEADLINE)


def test_frames_of_tracebacks_lead_to_the_code_and_lines_have_numbers(site: Site, page: Page) -> None:
    job = site.id_of("ended")
    page.goto(f"{site.url}/jobs/{job}/logs")
    expect(page.locator("#h-log")).to_have_text("job_result.txt")
    expect(page.locator(".says").first).to_contain_text("ConnectionError: upstream API returned <503>")
    expect(page.locator(".numbered .l")).not_to_have_count(0)
    expect(page.locator(".files")).to_contain_text("Nodes with failures: node 0")
    page.goto(f"{site.url}/jobs/{job}/logs?kind=error")
    page.click(".entries a:has-text('user/error/0/')")
    page.locator("[data-lines] a:has-text('main.py')").first.click()
    page.wait_for_url("**/code/main.py#L*")


def test_lines_of_json_are_folded_open_as_they_come(site: Site, page: Page, browser: Browser) -> None:
    program = site.start("json", 1, "import time\n\ndef run(batch):\n    time.sleep(600)\n")
    job = site.id_of("json")
    folder = site.folder / "prs-runs" / job / "logs/user/stdout/0"
    wait_until(folder.is_dir, "the job writes logs")
    path = folder / "json.stdout.txt"
    path.write_text('{"level": "info", "of": {"rows": [1, 2]}}\nplain\n')
    address = f"{site.url}/jobs/{job}/logs/user/stdout/0/{path.name}"
    page.goto(address)
    page.click("[data-follow]")
    with path.open("a") as log:
        log.write('{"level": "error"}\n\x1b[31mred\x1b[0m\n')
    expect(page.locator(".l")).to_have_count(4)
    expect(page.locator(".l .ansi-1")).to_have_text("red")
    expect(page.locator("details.l")).to_have_count(2)
    height = "(each) => each.getBoundingClientRect().height"
    folded = page.locator("details.l").first
    low = folded.evaluate(height)
    folded.locator("summary").click()
    assert folded.evaluate(height) > 3 * low
    # What is new comes below; what is open stays so.
    with path.open("a") as log:
        log.write("more\n")
    expect(page.locator(".l").last).to_have_text("more")
    assert folded.evaluate(height) > 3 * low
    without = browser.new_context(java_script_enabled=False)
    plain = without.new_page()
    plain.goto(site.new_link())
    plain.click("button:has-text('Log in')")
    plain.goto(address)
    folded = plain.locator("details.l").first
    folded.locator("summary").click()
    assert folded.evaluate(height) > 3 * low
    without.close()
    site.run("cancel", job)
    program.wait(DEADLINE)
