"""The look of the pages: pictures of them are compared with those that were kept: no change goes unseen.

Jobs of 10, 10,000 and 1,000,000 mini-batches, ended and running, wide in light and narrow in dark. The clock
of the server stands still: nothing but a change of the pages changes a picture. The pictures are kept in the
folder `PRS_TEST_LOOK`, and not with the code: letters look different on each machine. One that is missing
is kept, and `PRS_TEST_LOOK_KEEP=1` keeps all anew.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser, Page
from site_of_tests import DEADLINE, Site

KEPT = Path(os.environ["PRS_TEST_LOOK"]).absolute()
MAKE = Path(os.environ["PRS_TEST_BIN_DIR"]) / "simulated-jobs"
# The share of the points of a picture that may differ.
TOLERANCE = 0.001
# A colour that differs by no more looks the same.
SAME = 8
VIEWS = {"wide-light": (1280, "light"), "narrow-dark": (320, "dark")}
TABS = ["", "/errors", "/mini-batches", "/nodes", "/output", "/settings"]
PAGES = {
    f"{size}-{state}{tab.replace('/', '-')}": f"/jobs/{size}-{state}{tab}"
    for size in ["small", "middle", "large"]
    for state in ["ended", "running"]
    for tab in TABS
}
PAGES |= {"jobs": "/jobs", "problems": "/problems", "help": "/help", "components": "/help/components"}
PAGES |= {"compare": "/compare?a=small-ended&b=middle-ended", "endpoints": "/endpoints", "submit": "/submit"}
PAGES |= {"models": "/registry/models", "tokens": "/admin/tokens", "api": "/api"}


def library() -> str:
    """What stops the clock of a program."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    assert found, "libfaketime is needed by this test: apt-get install faketime"
    return str(found[0])


@pytest.fixture(scope="module")
def still() -> Iterator[Site]:
    """A server whose clock stands still, with jobs that nobody ran."""
    # Pages say where jobs are, so it is the same folder each time.
    folder = KEPT / "site"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    clock = {
        "LD_PRELOAD": library(),
        "FAKETIME": "2026-03-05 14:00:00",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "TZ": "UTC",
    }
    jobs = subprocess.Popen(
        [MAKE], cwd=folder, env=os.environ | clock, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert jobs.stdout is not None
    assert jobs.stdin is not None
    assert jobs.stdout.readline() == "ready\n"
    site = Site(folder, clock)
    try:
        yield site
    finally:
        code = site.stop()
        jobs.stdin.close()
        jobs.wait(DEADLINE)
    assert code == 0


@pytest.fixture(scope="module", params=VIEWS)
def view(still: Site, browser: Browser, request: pytest.FixtureRequest) -> Iterator[tuple[str, Page]]:
    """A way to look at pages."""
    width, scheme = VIEWS[request.param]
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-GB",
        # For the style that hides what changes by itself.
        bypass_csp=True,
    )
    page = context.new_page()
    page.set_default_timeout(DEADLINE * 1000)
    page.goto(still.new_link())
    page.wait_for_url("**/jobs")
    yield request.param, page
    context.close()


def differing(kept: Path, taken: bytes) -> float:
    """The share of the points that differ."""
    before, after = Image.open(kept).convert("RGB"), Image.open(io.BytesIO(taken)).convert("RGB")
    if before.size != after.size:
        return 1.0
    bands = ImageChops.difference(before, after).split()
    worst = ImageChops.lighter(ImageChops.lighter(bands[0], bands[1]), bands[2])
    same = sum(worst.histogram()[: SAME + 1])
    return 1 - same / (before.width * before.height)


@pytest.mark.parametrize("name", PAGES)
def test_no_page_changes_its_look_unseen(still: Site, view: tuple[str, Page], name: str) -> None:
    way, page = view
    page.goto(still.url + PAGES[name])
    # What moves while it is looked at, and what is another one with each version or start.
    page.add_style_tag(content="[data-state],.copy{visibility:hidden}")
    taken = page.screenshot(full_page=True, animations="disabled", caret="hide")
    kept = KEPT / f"{name}-{way}.png"
    if os.environ.get("PRS_TEST_LOOK_KEEP") == "1" or not kept.exists():
        kept.write_bytes(taken)
        return
    now = kept.with_suffix(".now.png")
    now.unlink(missing_ok=True)
    share = differing(kept, taken)
    if share > TOLERANCE:
        now.write_bytes(taken)
        pytest.fail(
            f"{share:.2%} of {PAGES[name]} looks different: compare {kept} with {now}, "
            "and keep it with PRS_TEST_LOOK_KEEP=1 if that was meant"
        )
