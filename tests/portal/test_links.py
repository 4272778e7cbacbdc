"""Every link and anchor of all pages: none leads nowhere, and no page is without a link."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

from playwright.sync_api import BrowserContext
from site_of_tests import DEADLINE, PIPELINE, Site

# Pages that a form or a link of a terminal leads to, or that stand for others.
WITHOUT_LINK = {"/", "/login", "/logout", "/selected", "/static/{name}", "/registry"}
WITHOUT_LINK |= {"/jobs/{job}/live", "/jobs/{job}/part/{part}"}
# Tracebacks and pictures of hosts come when they are opened.
WITHOUT_LINK |= {"/jobs/{job}/errors/part/{part}"}
WITHOUT_LINK |= {"/jobs/{job}/nodes/part/{part}", "/jobs/{job}/nodes/{node}/part/{part}"}
# A job has it where its output has pictures.
OF_PICTURES = {"/jobs/{job}/picture/{path}"}
# A fleet has pages that a server of one machine has not.
OF_FLEET = {"/fleet", "/fleet/{target}", "/workers/{worker}", "/workers/{worker}/drain"}
# A server with an identity provider has pages that others have not.
OF_PROVIDER = {"/oidc/start", "/oidc/return"}
MOST = 3000


def get_pages() -> set[str]:
    """The addresses of pages that are there to be read."""
    text = (Path(__file__).parents[2] / "server/src/pages/mod.rs").read_text()
    table = text.split("const PAGES", 1)[1].split("];", 1)[0]
    return set(re.findall(r'\("get", "([^"]+)"', table))


def test_no_link_leads_nowhere_and_no_page_is_without_a_link(site: Site, session: BrowserContext) -> None:
    site.write({"links.yml": PIPELINE})
    site.run("submit", "links.yml", "-q")
    program = site.start(
        "runs-on", 1, "import time\n\ndef run(batch):\n    time.sleep(600)\n", {"run_invocation_timeout": 900}
    )
    running = site.id_of("runs-on")
    site.token("linked", "read")
    waiting, seen, wrong = ["/jobs"], {"/jobs"}, []
    ids: dict[str, set[str]] = {}
    anchors: list[tuple[str, str, str]] = []
    while waiting:
        path = waiting.pop()
        answer = session.request.get(site.url + path, headers={"accept": "text/html"}, max_redirects=5)
        text = answer.text() if "text/html" in answer.headers.get("content-type", "") else ""
        if answer.status >= 400:
            wrong.append(f"{path}: {answer.status}")
        ids[path] = set(re.findall(r'\sid="([^"]+)"', text))
        for link in map(html.unescape, re.findall(r'<a\s[^>]*?href="([^"]*)"', text)):
            whole, anchor = urldefrag(urljoin(answer.url, link))
            assert whole.startswith(site.url), (path, link)
            parts = urlsplit(whole)
            to = parts.path + (f"?{parts.query}" if parts.query else "")
            if anchor:
                anchors.append((path, to, anchor))
            # A page has next ones without end; some of each are enough.
            shape = re.sub(r"[\w.%-]*\d[\w.%-]*", "N", to)
            if to not in seen and sum(re.sub(r"[\w.%-]*\d[\w.%-]*", "N", one) == shape for one in seen) < 12:
                seen.add(to)
                waiting.append(to)
        assert len(seen) < MOST
    site.run("cancel", running)
    program.wait(DEADLINE)
    lost = [(path, to, anchor) for path, to, anchor in anchors if to in ids and anchor not in ids[to]]
    # The script follows a log from there.
    lost = [one for one in lost if one[2] != "follow"]
    assert wrong == [] and lost == []
    found = {urlsplit(one).path for one in seen}
    patterns = {page: re.compile(re.sub(r"\{[^}]+\}", r"[^/]+(/[^?]*)?", page) + "$") for page in get_pages()}
    orphans = {page for page, pattern in patterns.items() if not any(map(pattern.match, found))}
    assert orphans - WITHOUT_LINK - OF_FLEET - OF_PROVIDER - OF_PICTURES == set()
