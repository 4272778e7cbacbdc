"""Jobs in a browser: they are watched, searched, compared, and an error is followed to its cause."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Page, expect
from site_of_tests import DEADLINE, Site, wait_until


def test_a_job_that_runs_is_kept_new_followed_and_canceled(site: Site, page: Page) -> None:
    program = site.start("running", 300)
    job = site.id_of("running")
    page.goto(f"{site.url}/jobs")
    # The list is a second old at most.
    wait_until(lambda: bool(page.reload()) and page.locator(f"a[href='/jobs/{job}']").count() == 1, "listed")
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
    page.wait_for_url(lambda url: url.endswith(f"/jobs/{job}?told=cancel"))
    expect(page.locator(".chip").first).to_have_text("canceled")
    expect(page.locator("text=Cancel…")).to_have_count(0)
    assert program.wait(DEADLINE) == 130


def test_the_first_screen_of_a_job_with_missing_items_names_the_cause(site: Site, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(f"{site.url}/jobs?state=incomplete&q=name:ended")
    page.click("table.jobs tbody a")
    cause = page.locator(".attention .says").first
    expect(cause).to_contain_text(
        "1 item is missing from the result: ConnectionError: upstream API returned <503>"
    )
    box = cause.bounding_box()
    assert box is not None and box["y"] + box["height"] < 720
    page.click("text=user/error/0/process000.txt >> nth=0")
    expect(page.locator(".log")).to_contain_text("ConnectionError: upstream API returned <503>")
    page.click("text=Output")
    expect(page.locator(".log")).to_contain_text("f000.txt")
    with page.expect_download() as download:
        page.click("a:has-text('parallel_run_step.txt') >> nth=0")
    assert len(download.value.path().read_text().splitlines()) == 9


def test_an_error_leads_to_its_mini_batch_and_what_that_printed(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/jobs/{site.id_of('ended')}")
    page.click("text=mini-batches lost")
    page.click("table tbody a >> nth=0")
    page.wait_for_url("**/mini-batches/3")
    expect(page.locator("h1")).to_have_text("Mini-batch 3")
    expect(page.locator(".log").first).to_contain_text("ConnectionError: upstream API returned <503>")
    printed = page.locator("h3:has-text('Standard output') + pre").first
    expect(printed).to_have_text(re.compile("batch of 1"))
    page.click("text=In the log >> nth=0")
    expect(page.locator(".log")).to_contain_text("batch of 1")
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
    assert page.locator(f"tr:has(a[href='/jobs/{job}'])").count() == 0, "nothing jumps"
    page.click("[data-newer]")
    row = page.locator(f"tr:has(a[href='/jobs/{job}'])")
    expect(row).to_contain_text("completed", timeout=DEADLINE * 1000)
    assert program.wait(DEADLINE) == 0


def test_the_list_is_searched_with_the_keyboard_and_its_address_is_its_state(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/jobs")
    page.keyboard.press("/")
    page.keyboard.type("503")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=503")
    expect(page.locator("table.jobs tbody tr").first).to_contain_text("503")
    page.goto(f"{site.url}/jobs?q=nothing-like-it")
    expect(page.locator(".empty")).to_contain_text("No job fits")
    page.go_back()
    expect(page.locator("#q")).to_have_value("503")
