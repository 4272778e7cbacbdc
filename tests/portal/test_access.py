"""Who may come in, and who did what: links, tokens, sessions, the audit."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Browser, BrowserContext, Page, expect
from site_of_tests import Site

Watched = Callable[[BrowserContext], Page]


def test_who_logs_out_is_out(site: Site, browser: Browser, watched: Watched) -> None:
    context = browser.new_context()
    page = watched(context)
    page.goto(f"{site.url}/jobs")
    assert re.search(r"/login\?next=%2Fjobs$", page.url)
    page.goto(site.new_link())
    page.wait_for_url("**/jobs")
    page.click("text=Log out")
    page.wait_for_url("**/login")
    page.goto(f"{site.url}/jobs")
    assert "/login" in page.url


def test_a_token_logs_in_and_a_wrong_one_does_not(site: Site, browser: Browser) -> None:
    token = site.token("reader", "read")
    page = browser.new_context().new_page()
    page.goto(f"{site.url}/submit")
    page.fill("#token", token[:-1] + ("a" if token[-1] != "a" else "b"))
    page.keyboard.press("Enter")
    expect(page.locator("[role=alert]")).to_be_visible()
    page.fill("#token", token)
    page.keyboard.press("Enter")
    # What a reader may not do is said, and what they may is there.
    expect(page.locator("h1")).to_have_text("The role is too low")
    page.goto(f"{site.url}/jobs")
    expect(page.locator("table.jobs")).to_be_visible()
    assert page.locator("input[name=job]").count() == 0
    page.context.close()


def test_a_token_is_made_shown_once_and_revoked(
    site: Site, page: Page, browser: Browser, watched: Watched
) -> None:
    page.goto(f"{site.url}/jobs")
    page.click("nav >> text=Tokens")
    page.fill("#name", "by <b>form</b>")
    page.select_option("#role", "read")
    page.fill("#days", "1")
    page.click("button:has-text('Make the token')")
    secret = page.locator("section[aria-labelledby=h-made] pre").text_content() or ""
    expect(page.locator("#h-made")).to_have_text("The token of by <b>form</b>")
    page.goto(f"{site.url}/admin/tokens")
    assert secret not in page.content()
    other = watched(browser.new_context())
    other.goto(f"{site.url}/login")
    other.fill("#token", secret)
    other.keyboard.press("Enter")
    other.wait_for_url("**/jobs")
    page.click("text=Revoke by <b>form</b>")
    page.click("main button")
    row = page.locator("tr", has_text="by <b>form</b>")
    expect(row).to_contain_text("revoked")
    page.click("text=Who changed what")
    expect(page.locator("table.jobs")).to_contain_text("token.revoke")
    page.fill("#action", "token.create")
    page.click("main button:has-text('Show')")
    expect(page.locator("table.jobs tbody tr").first).to_contain_text("token.create")
