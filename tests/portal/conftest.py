"""What the tests of the pages share: servers with jobs behind them, and browsers that are logged in.

Needs `PRS_TEST_BIN_DIR`, the folder with the built programs; `PRS_TEST_CHROMIUM`, the browser;
`PRS_TEST_AXE`, the file axe.min.js of axe-core; `PRS_TEST_VNU`, the file vnu.jar of the Nu Html Checker; and
`PRS_TEST_LOOK`, the folder of the pictures of pages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))

from site_of_tests import DEADLINE, Site, heard


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server of this machine, with a job that has missing items, an endpoint and registered data."""
    site = Site(tmp_path_factory.mktemp("site"))
    try:
        assert site.start("ended", 10).wait(DEADLINE) == 0
        site.deploy("letters-batch")
        yield site
    finally:
        code = site.stop()
    assert code == 0


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ["PRS_TEST_CHROMIUM"], args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def session(site: Site, browser: Browser) -> BrowserContext:
    """A browser that the link has logged in."""
    context = browser.new_context(accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
    page = context.new_page()
    page.goto(site.link)
    page.wait_for_url("**/jobs")
    page.close()
    return context


@pytest.fixture
def watched(site: Site) -> Iterator[Callable[[BrowserContext], Page]]:
    """Opens pages that say nothing on their consoles, and ask the server alone."""
    opened: list[tuple[Page, list[str], list[str]]] = []

    def open_page(context: BrowserContext) -> Page:
        page = context.new_page()
        opened.append((page, *heard(page)))
        return page

    yield open_page
    for page, said, asked in opened:
        page.close()
        assert said == []
        assert all(url.startswith(site.url) for url in asked), asked


@pytest.fixture
def page(session: BrowserContext, watched: Callable[[BrowserContext], Page]) -> Page:
    """A page of the browser that is logged in."""
    return watched(session)
