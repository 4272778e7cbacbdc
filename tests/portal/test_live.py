"""Pages that are kept new, after a new start as well; not where the reader wants that; without a script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from site_of_tests import DEADLINE, Site, wait_until

SLOW = "import time\n\ndef run(batch):\n    time.sleep(0.3)\n    print('one')\n    return batch\n"


def opened(site: Site, browser: Browser) -> Page:
    """A page of a browser of its own, which a link has logged in."""
    page = browser.new_context().new_page()
    page.set_default_timeout(DEADLINE * 1000)
    page.goto(site.new_link())
    page.wait_for_url("**/jobs")
    return page


@pytest.fixture(scope="module")
def running(site: Site) -> Iterator[str]:
    program = site.start("watched", 400, SLOW)
    yield site.id_of("watched")
    site.run("cancel", site.id_of("watched"))
    program.wait(DEADLINE)


def test_a_server_that_comes_back_finds_its_pages_where_they_were(tmp_path: Path, browser: Browser) -> None:
    site = Site(tmp_path)
    program = site.start("watched", 400, SLOW)
    running = site.id_of("watched")
    page = browser.new_context(viewport={"width": 1280, "height": 500}).new_page()
    page.set_default_timeout(DEADLINE * 1000)
    page.goto(f"{site.url}/login")
    page.fill("#token", site.token("operator", "submit"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs")
    page.goto(f"{site.url}/jobs/{running}")
    expect(page.locator("[data-state]")).to_have_text("live")
    page.evaluate("scrollTo(0, 300)")
    before = page.locator(".counts").first.text_content()
    assert site.stop() == 0
    expect(page.locator("[data-state]")).to_have_text(re.compile("^Not new"))
    assert page.locator(".counts").first.text_content(), "what was there stays"
    site.begin(site.url.removeprefix("http://"))
    expect(page.locator("[data-state]")).to_have_text("live", timeout=DEADLINE * 1000)
    wait_until(lambda: page.locator(".counts").first.text_content() != before, "it is new again")
    assert page.evaluate("scrollY") == 300
    page.context.close()
    site.run("cancel", running)
    program.wait(DEADLINE)
    assert site.stop() == 0


def test_a_reader_pauses_and_goes_on(site: Site, browser: Browser, running: str) -> None:
    page = opened(site, browser)
    page.goto(f"{site.url}/jobs/{running}")
    expect(page.locator("[data-state]")).to_have_text("live")
    page.keyboard.press("p")
    expect(page.locator("[data-state]")).to_have_text("paused")
    held = page.locator(".counts").first.text_content()
    page.wait_for_timeout(2500)
    assert page.locator(".counts").first.text_content() == held
    page.keyboard.press("p")
    wait_until(lambda: page.locator(".counts").first.text_content() != held, "it is new again")
    assert re.match(r"[\d.]+.% watched: running \u2013 prs", page.title().replace("\u202f", " ")), (
        page.title()
    )
    page.context.close()


def test_everything_but_news_works_without_a_script(site: Site, browser: Browser, running: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(DEADLINE * 1000)
    page.goto(site.new_link())
    page.click("button:has-text('Log in')")
    page.wait_for_url("**/jobs")
    page.fill("#words", "name:ended")
    page.click("main button:has-text('Search')")
    page.click("tbody a >> nth=0")
    for tab in ["Errors", "Mini-batches", "Nodes", "Logs", "Output", "Settings", "Overview"]:
        page.click(f"nav.tabs >> text={tab}")
        assert (page.locator("nav.tabs [aria-current=page]").text_content() or "").startswith(tab)
    page.click("summary:has-text('As a table') >> nth=0")
    page.click("text=The page with this table")
    page.wait_for_url(re.compile(r"[?]table=\w+#\w+$"))
    expect(page.locator("details[data-table][open] table")).to_be_visible()
    page.goto(f"{site.url}/jobs/{running}")
    assert not page.locator("[data-pause]").is_visible()
    first = page.locator(".counts").first.text_content()
    wait_until(lambda: bool(page.reload()) and page.locator(".counts").first.text_content() != first, "new")
    page.goto(f"{site.url}/display")
    page.check("#theme-dark")
    page.click("button:has-text('Save')")
    assert page.locator("html[data-theme=dark]").count() == 1
    context.close()


def test_a_table_comes_when_it_is_opened_and_stays_while_it_is(
    site: Site, browser: Browser, running: str
) -> None:
    page = opened(site, browser)
    page.goto(f"{site.url}/jobs/{running}")
    rate = page.locator("[data-part=picture-rate]")
    rate.locator("summary").click()
    page.wait_for_url("**?table=rate")
    expect(rate.locator("caption")).to_contain_text("Rate")
    page.mouse.move(0, 0)
    # What is new waits while the table is open; all else goes on.
    expect(rate).to_have_class("waits")
    before = page.locator(".counts").first.text_content()
    wait_until(lambda: page.locator(".counts").first.text_content() != before, "the page is kept new")
    expect(rate.locator("table")).to_be_visible()
    # The address says what is open: another page, and back.
    page.click("nav.tabs >> text=Settings")
    page.wait_for_url("**/settings")
    page.go_back()
    expect(rate.locator("table")).to_be_visible()
    page.reload()
    expect(rate.locator("table")).to_be_visible()
    rate.locator("summary").click()
    page.wait_for_url(re.compile(f"/{running}$"))
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    expect(rate.locator("table")).to_have_count(0)
    page.context.close()


def test_a_table_that_does_not_come_says_why_and_is_asked_for_again(
    site: Site, browser: Browser, running: str
) -> None:
    page = opened(site, browser)
    page.goto(f"{site.url}/jobs/{running}")
    page.route("**/part/table-rate", lambda route: route.abort())
    rate = page.locator("[data-part=picture-rate] details")
    rate.locator("summary").click()
    expect(rate).to_contain_text("Could not be loaded: the server does not answer.")
    refused = "<title>x</title><h1>Not ready</h1>"
    page.unroute("**/part/table-rate")
    page.route("**/part/table-rate", lambda route: route.fulfill(status=503, body=refused))
    rate.locator("button").click()
    expect(rate).to_contain_text("Could not be loaded: Not ready.")
    page.unroute("**/part/table-rate")
    rate.locator("button").click()
    expect(rate.locator("caption")).to_contain_text("Rate")
    page.context.close()


def test_a_hidden_page_keeps_its_title_and_says_nothing_where_the_server_is_away(
    site: Site, browser: Browser, running: str
) -> None:
    page = opened(site, browser)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method))
    # What a browser says of a page that nobody sees, and a minute that is short.
    page.add_init_script(
        "Object.defineProperty(document, 'hidden', { get: () => window.isHidden });"
        "const wait = setInterval; window.setInterval = (act, ms) => wait(act, ms === 60000 ? 200 : ms);"
    )
    page.goto(f"{site.url}/jobs/{running}")
    expect(page.locator("[data-state]")).to_have_text("live")
    asked.clear()
    page.route(f"**/jobs/{running}", lambda route: route.abort())
    page.evaluate("isHidden = true")
    for _ in range(2):
        page.wait_for_event("requestfailed", lambda request: request.method == "HEAD")
    page.unroute(f"**/jobs/{running}")
    page.evaluate("document.title = ''; document.querySelector('[rel=icon]').href = ''")
    wait_until(lambda: "watched" in page.title(), "the title is kept new")
    expect(page.locator("[rel=icon]")).to_have_attribute("href", re.compile("^/static/active-"))
    assert set(asked) == {"HEAD"} and wrong == []
    page.context.close()


def test_times_are_those_of_the_reader_or_utc(site: Site, browser: Browser) -> None:
    context = browser.new_context(timezone_id="Asia/Tokyo")
    page: Page = context.new_page()
    page.goto(site.new_link())
    page.wait_for_url("**/jobs")
    page.goto(f"{site.url}/jobs/{site.id_of('ended')}")
    time = page.locator("header.head time").first
    assert time.text_content() and "UTC" not in (time.text_content() or "")
    assert (time.get_attribute("title") or "").endswith(" UTC")
    hours = page.evaluate(
        "(each) => (parseInt(each.textContent.slice(11)) - new Date(each.dateTime).getUTCHours() + 24) % 24",
        time.element_handle(),
    )
    assert hours == 9
    page.goto(f"{site.url}/display")
    page.check("#zone-utc")
    page.click("button:has-text('Save')")
    page.goto(f"{site.url}/jobs/{site.id_of('ended')}")
    expect(page.locator("header.head time").first).to_have_text(re.compile(" UTC$"))
    context.close()


def test_a_reader_has_the_colours_that_they_chose(site: Site, browser: Browser) -> None:
    context = browser.new_context(color_scheme="light")
    page = context.new_page()
    page.goto(site.new_link())
    page.wait_for_url("**/jobs")
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(colour)
    page.click("text=Display")
    page.check("#theme-dark")
    page.click("button:has-text('Save')")
    page.wait_for_url("**/jobs")
    assert page.evaluate(colour) != light
    context.close()
