"""Who may come in, and who did what: links, tokens, sessions, the audit."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
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


EVIL = """<!doctype html><title>another site</title>
<form id=f method=post action="{target}"><input name=reason value=evil></form>
<iframe id=i src="{page}"></iframe>
"""
# What a page of another site tries with the session of its reader; what it reads of the answers.
TRIES = """async ([target, list]) => {
    const tried = [];
    for (const kind of ['text/plain', 'application/x-www-form-urlencoded', 'application/json']) {
        for (const mode of ['no-cors', 'cors']) {
            const sent = fetch(target, {
                method: 'POST', mode, credentials: 'include', headers: {'Content-Type': kind}, body: '{}'
            });
            tried.push(await sent.then(answer => answer.status, () => 'blocked'));
        }
    }
    tried.push(await fetch(list, {credentials: 'include'}).then(answer => answer.text(), () => 'blocked'));
    return tried;
}"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_another_site_changes_and_reads_nothing(site: Site, browser: Browser, host: str) -> None:
    """Of another port of the same name, where a browser sends the session along, and of another name."""
    name = f"victim-{host.replace('.', '-')}"
    site.start(name, 200)
    job = site.id_of(name)
    target = f"{site.url}/jobs/{job}/cancel"

    class Another(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = EVIL.format(target=target, page=f"{site.url}/jobs").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Another) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        context = browser.new_context()
        page = context.new_page()
        page.goto(site.new_link())
        page.wait_for_url("**/jobs")
        asked: list[tuple[str, str | None]] = []
        page.on("request", lambda request: asked.append((request.method, request.headers.get("cookie"))))
        page.goto(f"http://{host}:{other.server_address[1]}/")
        api = f"{site.url}/api/v1/jobs"
        tried = page.evaluate(TRIES, [f"{api}/{job}/cancel", api])
        # What a browser sends without asking is answered, and neither that nor anything else can be read.
        assert set(tried) <= {0, "blocked"} and tried[-1] == "blocked", tried
        frame = page.frame_locator("#i").locator("table.jobs")
        assert frame.count() == 0, "no page of the server is in one of another"
        page.evaluate("document.getElementById('f').submit()")
        page.wait_for_url(target)
        expect(page.locator("h1")).to_have_text("The request came from a page of another site")
        assert any(method == "POST" for method, _ in asked)
        other.shutdown()
        context.close()
    assert json.loads(site.run("status", job, "-o", "json"))["state"] in ("running", "queued", "scheduling")
    site.run("cancel", job)
