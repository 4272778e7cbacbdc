"""The keys: single letters, the first flows without a pointer, and walking pictures."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect
from site_of_tests import DEADLINE, Site, wait_until

QUICK = """\
import os

def run(mini_batch):
    print("printed by", os.path.basename(mini_batch[0]))
    if os.path.basename(mini_batch[0]) == "f007.txt":
        raise ValueError("seven")
    return mini_batch
"""


@pytest.fixture(scope="module")
def many(site: Site) -> str:
    """A job of more tries than there are bars for, over some seconds."""
    script = QUICK.replace("    print", "    import time; time.sleep(0.01)\n    print")
    assert site.start("many", 500, script).wait(DEADLINE) == 0
    return site.id_of("many")


def focused(page: Page, what: str) -> str:
    return str(page.evaluate(f"document.activeElement.{what}"))


def test_letters_lead_to_pages_tabs_and_rows(site: Site, page: Page, many: str) -> None:
    job = site.id_of("ended")
    assert many != job, "there are two rows to walk"
    page.goto(f"{site.url}/endpoints")
    page.keyboard.type("gj")
    page.wait_for_url("**/jobs")
    page.keyboard.press("j")
    first = focused(page, "href")
    page.keyboard.press("j")
    assert focused(page, "href") != first
    page.keyboard.press("k")
    assert focused(page, "href") == first
    page.keyboard.press("x")
    assert page.locator("tbody input:checked").count() == 1
    page.keyboard.press("x")
    assert page.locator("tbody input:checked").count() == 0
    page.keyboard.press("Enter")
    page.wait_for_url(first)
    page.goto(f"{site.url}/jobs/{job}")
    for key, end in [("2", "errors"), ("3", "mini-batches"), ("5", "logs"), ("1", job)]:
        page.keyboard.press(key)
        page.wait_for_url(f"**/{end}")
    page.keyboard.press("c")
    expect(page.locator("#told")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.keyboard.press("?")
    page.wait_for_url("**/help#keys")
    page.keyboard.press("/")
    assert focused(page, "id") == "q"
    page.keyboard.type("gj")
    assert page.url.endswith("/help#keys"), "letters in a field are text"


def test_letters_page_through_lists_and_find_errors_in_logs(site: Site, page: Page, many: str) -> None:
    page.goto(f"{site.url}/jobs/{many}/mini-batches?state=all")
    page.keyboard.press("[")
    page.wait_for_url("**cursor=**")
    page.goto(f"{site.url}/jobs/{many}/logs/job_error.txt")
    page.keyboard.press("e")
    page.wait_for_url(re.compile(r"#b\d+$"))
    expect(page.locator(".l:target")).to_contain_text("Error")


def test_letters_can_be_switched_off(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/endpoints")
    page.click("nav >> text=Display")
    page.check("#keys-off")
    page.click("button:has-text('Save')")
    page.wait_for_url("**/endpoints")
    page.keyboard.type("gj")
    page.wait_for_timeout(300)
    assert page.url.endswith("/endpoints")
    page.goto(f"{site.url}/display")
    page.check("#keys-on")
    page.click("button:has-text('Save')")


def test_activity_leads_by_keyboard_to_a_mini_batch_and_what_it_printed(
    site: Site, page: Page, many: str
) -> None:
    page.goto(f"{site.url}/jobs/{many}")
    picture = page.locator("#activity .walk")
    picture.focus()
    page.keyboard.press("End")
    expect(picture.locator(".said")).to_contain_text("busy")
    last = picture.locator(".said").text_content()
    page.keyboard.press("ArrowLeft")
    expect(picture.locator(".said")).not_to_have_text(last or "")
    page.keyboard.press("Home")
    box, mark = picture.bounding_box(), picture.locator(".mark").bounding_box()
    assert box and mark and box["x"] <= mark["x"] and mark["width"] > 0
    # On a busy machine nothing ran in the first seconds.
    for _ in range(96):
        if ": 0\u202f% busy" not in (picture.locator(".said").text_content() or ""):
            break
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**/mini-batches?state=tries&node=0**")
    expect(page.locator("table tbody tr").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/mini-batches/\d+$"))
    expect(page.locator("pre.log").first).to_contain_text("printed by")


def test_every_picture_is_walked_and_says_what_is_there(site: Site, page: Page, many: str) -> None:
    for job in [many, site.id_of("ended")]:
        page.goto(f"{site.url}/jobs/{job}")
        pictures = page.locator(".walk")
        for at in range(pictures.count()):
            picture = pictures.nth(at)
            picture.focus()
            page.keyboard.press("ArrowRight")
            said = picture.locator(".said")
            wait_until(lambda said=said: bool(said.text_content()), f"picture {at} of {job} says something")
            assert "undefined" not in (said.text_content() or ""), said.text_content()
    # A bar leads to its mini-batch, by a click as well.
    page.locator("#tries .walk rect").nth(3).click()
    page.wait_for_url(re.compile(r"/mini-batches/\d+$"))


def tab_to(page: Page, text: str) -> None:
    """Presses the tabulator until the element with this text, or this label, has the focus."""
    for _ in range(200):
        page.keyboard.press("Tab")
        said = "({ textContent, ariaLabel, id }) => [textContent, ariaLabel, id].join('|')"
        here = str(page.evaluate(f"({said})(document.activeElement)"))
        if text in here.split("|") or here.startswith(text):
            return
    raise AssertionError(f"{text} cannot be reached")


def test_a_job_is_submitted_resumed_and_canceled_with_the_keyboard_alone(site: Site, page: Page) -> None:
    """The form, its problems, the failed job, its cause, going on, cancel and running again."""
    script = (
        'import sys\n\ndef run(batch):\n    if "f001" in batch[0]:\n        sys.exit("<nothing> works")\n'
    )
    script += "    return batch\n"
    assert site.start("by-keyboard", 2, script, {"error_threshold": 0}).wait(DEADLINE) != 0
    job = site.id_of("by-keyboard")
    page.goto(f"{site.url}/jobs")
    tab_to(page, "To the content")
    page.keyboard.press("Enter")
    tab_to(page, "words")
    page.keyboard.type("name:by-keyboard")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=**")
    expect(page.locator("tbody tr")).to_have_count(1)
    tab_to(page, "by-keyboard")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{job}")
    expect(page.locator(".attention .says").first).to_contain_text("<nothing> works")
    tab_to(page, "Errors")
    page.keyboard.press("Enter")
    page.wait_for_url("**/errors")
    tab_to(page, "Resume all that failed…")
    page.keyboard.press("Enter")
    page.wait_for_url("**/resume")
    tab_to(page, "set")
    page.keyboard.type("error_threshold=10")
    tab_to(page, "Resume the job")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{job}")
    expect(page.locator(".chip").first).to_have_text(re.compile("completed"), timeout=DEADLINE * 1000)
    tab_to(page, "Resubmit…")
    page.keyboard.press("Enter")
    page.wait_for_url("**/resubmit")
    tab_to(page, "Resubmit the job")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/jobs/by-keyboard-[^/]+$"))
    slow = site.start("slow-by-keyboard", 2, "import time\n\ndef run(batch):\n    time.sleep(600)\n")
    page.goto(f"{site.url}/jobs/{site.id_of('slow-by-keyboard')}")
    tab_to(page, "Cancel…")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cancel")
    tab_to(page, "Cancel the job")
    page.keyboard.press("Enter")
    expect(page.locator(".chip").first).to_have_text("canceled", timeout=DEADLINE * 1000)
    assert slow.wait(DEADLINE) == 130
