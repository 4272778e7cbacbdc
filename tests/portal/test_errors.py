"""The errors of a job in a browser: their lines of code, the items that each cost, going on with some."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect
from site_of_tests import DEADLINE, Site

FAILING = """\
import os

def run(mini_batch):
    number = int(os.path.basename(mini_batch[0])[1:4])
    if os.path.exists(os.path.join(os.path.dirname(__file__), "mended")):
        return mini_batch
    if number % 3 == 0:
        raise ConnectionError("upstream <b>503</b>")
    if number % 3 == 1 and number < 6:
        raise ValueError("no number")
    return mini_batch
"""


@pytest.fixture(scope="module")
def failing(site: Site) -> str:
    assert site.start("failing", 12, FAILING).wait(DEADLINE) == 0
    return site.id_of("failing")


def test_errors_have_their_lines_their_items_and_a_command(site: Site, page: Page, failing: str) -> None:
    page.goto(f"{site.url}/jobs/{failing}")
    page.click("nav.tabs >> text=Errors")
    cards = page.locator(".card.error")
    expect(cards).to_have_count(2)
    expect(page.locator("section > .note").first).to_contain_text(
        "2 distinct errors; 6 tries failed; items of 6 mini-batches are missing."
    )
    first = cards.first
    expect(first.locator("h3")).to_have_text("ConnectionError: upstream <b>503</b>")
    expect(first.locator(".around .l")).to_have_count(3)
    expect(first.locator(".around .here")).to_contain_text('raise ConnectionError("upstream <b>503</b>")')
    expect(first.locator(".attempt")).to_contain_text(
        re.compile(r"prs try failing-\S+ --mini-batch \d+ --pdb")
    )
    page.click("nav.states >> text=newest")
    assert page.url.endswith("sort=-last_at")
    page.click("h3 a:has-text('ValueError')")
    items = page.locator("section[aria-labelledby=items] pre").text_content() or ""
    assert [item.rsplit("/", 1)[1] for item in items.split()] == ["f001.txt", "f004.txt"]
    page.click("section[aria-labelledby=h-tried] table a >> nth=0")
    page.wait_for_url(re.compile(r"/mini-batches/[14]$"))
    assert page.request.get(f"{site.url}/jobs/{failing}/errors/none").status == 404


def test_tracebacks_behind_the_first_come_when_they_are_opened(
    site: Site, page: Page, browser: Browser, failing: str
) -> None:
    address = f"{site.url}/jobs/{failing}/errors"
    page.goto(address)
    expect(page.locator(".card.error pre.log")).to_have_count(1)
    second = page.locator(".card.error").nth(1)
    second.locator("summary").click()
    expect(second.locator("pre.log")).to_contain_text('raise ValueError("no number")')
    assert "?table=" in page.url
    page.reload()
    expect(second.locator("pre.log")).to_be_visible()
    # In another order, and without the script, cards lead to the pages of their errors.
    page.goto(f"{address}?sort=-tries")
    page.locator(".card.error").nth(1).locator("a:text-is('Traceback')").click()
    expect(page.locator(".card pre.log")).to_contain_text("Traceback (most recent call last)")
    without = browser.new_context(java_script_enabled=False)
    plain = without.new_page()
    plain.goto(site.new_link())
    plain.click("button:has-text('Log in')")
    plain.goto(address)
    second = plain.locator(".card.error").nth(1)
    second.locator("summary").click()
    second.locator("details a").click()
    expect(plain.locator(".card pre.log")).to_contain_text('raise ValueError("no number")')
    without.close()


def test_only_what_one_error_cost_is_resumed(site: Site, page: Page, failing: str) -> None:
    page.goto(f"{site.url}/jobs/{failing}/errors")
    card = page.locator(".card.error", has_text="ValueError")
    card.locator("text=Resume only these…").click()
    expect(page.locator("[role=note]").first).to_contain_text("What other errors cost stays as it is")
    page.click("button:has-text('Resume the job')")
    page.wait_for_url(f"**/jobs/{failing}")
    expect(page.locator(".chip").first).to_have_text(re.compile("completed"), timeout=DEADLINE * 1000)


def test_errors_come_while_the_job_runs(site: Site, page: Page) -> None:
    program = site.start("comes", 60)
    job = site.id_of("comes")
    page.goto(f"{site.url}/jobs/{job}/errors")
    expect(page.locator(".card.error").first).to_contain_text("ConnectionError", timeout=DEADLINE * 1000)
    expect(page.locator("[data-state]")).to_have_text("live")
    assert page.locator("[data-pause]").is_visible()
    site.run("cancel", job)
    assert program.wait(DEADLINE) == 130
    expect(page.locator("[data-state]")).to_have_text("The job has ended.", timeout=DEADLINE * 1000)


def test_a_job_without_errors_says_so(site: Site, page: Page) -> None:
    assert site.start("fine", 2, "def run(batch):\n    return batch\n").wait(DEADLINE) == 0
    page.goto(f"{site.url}/jobs/{site.id_of('fine')}/errors")
    expect(page.locator(".empty")).to_have_text("No try failed, and no item is missing.")
