"""Every page for everybody: axe-core, narrow and wide, light and dark, forced colours; and valid HTML."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from site_of_tests import AXE, DEADLINE, PIPELINE, RULES, Site

# What makes text long, in names and messages.
LONG = "x" * 120


@pytest.fixture(scope="module")
def whole(site: Site) -> dict[str, str]:
    """Jobs of every kind, and everything else that has a page."""
    jobs = {"ended": site.id_of("ended")}
    fail = f"def run(batch):\n    raise ValueError('{LONG}')\n"
    assert site.start("fails", 3, fail, {"error_threshold": 0, "display_name": LONG}).wait(DEADLINE) != 0
    no_init = "def init():\n    import nothing_like_it\n\ndef run(batch):\n    return batch\n"
    assert site.start("no-init", 1, no_init).wait(DEADLINE) != 0
    assert (
        site.start("summary", 2, "def run(b):\n    return b\n", {"output_action": "summary_only"}).wait(
            DEADLINE
        )
        == 0
    )
    rows = "def run(batch):\n    return [f'{name},1,<i>' for name in batch]\n"
    assert site.start("rows", 30, rows, {"append_row_file_name": "rows.csv"}).wait(DEADLINE) == 0
    jobs |= {name: site.id_of(name) for name in ["fails", "no-init", "summary", "rows"]}
    site.write({"flow.yml": PIPELINE, "env.yml": "name: plain\nimage: example.org/x\n"})
    site.run("submit", "flow.yml", "-q", "--id-file", "flow-id")
    jobs["flow"] = (site.folder / "flow-id").read_text().strip()
    site.run("environment", "create", "-f", "env.yml", "-q")
    site.run("model", "create", "--name", "weights-2", "--path", "letters-batch/model", "-q")
    site.token("shown", "read")
    site.run("endpoint", "create", "-n", "no-deployment", "-q")
    return jobs


def pages(site: Site, jobs: dict[str, str]) -> list[str]:
    """Every page, and every state of it that an address leads to."""
    job = jobs["ended"]
    tabs = ["", "/errors", "/mini-batches", "/nodes", "/logs", "/output", "/settings"]
    more = ["/errors?sort=-tries", "/errors?from=100", "/mini-batches?state=all", "/mini-batches?state=tries"]
    more += [
        "/mini-batches?node=99",
        "/mini-batches/3",
        "/nodes/0",
        "/logs?q=upstream",
        "/logs?q=nothing-like-it",
    ]
    more += [
        "/logs?name=nothing",
        "/logs?kind=error&node=0",
        "/logs?q=upstream&scope=node%3D0",
        "/logs/job_result.txt",
        "/code",
        "/code/main.py",
        "/code?frame=x.py&line=1",
    ]
    more += [
        "?table=tries&table=nodes",
        "/graph",
        "/cancel",
        "/remove",
        "/resume",
        "/resubmit",
        "/report.html",
    ]
    found = [f"/jobs/{job}{tab}" for tab in tabs + more]
    found += [f"/jobs/{jobs[name]}{tab}" for name in jobs if name != "ended" for tab in tabs]
    found += [f"/jobs/{jobs['flow']}/graph"]
    group = json.loads(site.run("errors", job, "-o", "json"))["errors"][0]["group"]
    found += [f"/jobs/{job}/errors/{group}", f"/jobs/{job}/resume?only_group={group}"]
    found += [
        "/jobs",
        "/jobs?q=nothing-like-it",
        "/jobs?state=failed",
        "/jobs?limit=1",
        "/jobs?q=state:nothing",
    ]
    found += [
        "/compare",
        f"/compare?a={job}",
        f"/compare?a={job}&b={jobs['fails']}",
        f"/compare?a={job}&b=none",
    ]
    found += ["/submit", "/endpoints", "/endpoints/letters-batch", "/endpoints/no-deployment"]
    found += [
        f"/endpoints/letters-batch/{tab}" for tab in ["invoke", "edit", "delete", "deployments/first/delete"]
    ]
    found += [f"/registry/{kind}" for kind in ["models", "data", "environments", "components"]]
    found += ["/registry/data?q=nothing-like-it", "/registry/data/letters", "/registry/data/letters/1"]
    found += [
        "/registry/data/letters/1/delete",
        "/registry/models/weights-2/1",
        "/registry/environments/plain",
    ]
    token = json.loads(site.run("token", "list", "-o", "json"))["tokens"][0]["id"]
    found += [
        "/admin/tokens",
        "/admin/servers",
        f"/admin/tokens/{token}/revoke",
        "/admin/audit",
        "/admin/audit?principal=nobody",
    ]
    found += ["/help", "/help/components", "/display", "/api", "/problems", "/problems/forbidden", "/login"]
    found += ["/login?code=x", "/nothing", f"/jobs/{job}x", "/jobs/none", "/jobs?state=x&state=y", "/fleet"]
    return found


@pytest.fixture
def opened(request: pytest.FixtureRequest, browser: Browser, session: BrowserContext) -> Iterator[Page]:
    # The policy of the pages keeps out what is no part of them, this test's script too.
    context = browser.new_context(bypass_csp=True, storage_state=session.storage_state(), **request.param)
    page = context.new_page()
    page.set_default_timeout(DEADLINE * 1000)
    yield page
    context.close()


def size(width: int, scheme: str, **more: object) -> dict[str, object]:
    return {"viewport": {"width": width, "height": 800}, "color_scheme": scheme, **more}


def wrong_with(page: Page, path: str) -> list[str]:
    """What a page does wrong."""
    page.evaluate(AXE)
    found = page.evaluate("rules => axe.run(document, { runOnly: rules })", RULES)
    wrong = [f"{path}: {one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        wrong.append(f"{path}: scrolls sideways")
    return wrong


@pytest.mark.parametrize(
    "opened",
    [size(1280, "light"), size(320, "dark"), size(1280, "dark"), size(320, "light")],
    ids=["wide-light", "narrow-dark", "wide-dark", "narrow-light"],
    indirect=True,
)
def test_pages_can_be_used_by_everybody(site: Site, whole: dict[str, str], opened: Page) -> None:
    wrong = []
    for path in pages(site, whole):
        opened.goto(site.url + path)
        wrong += wrong_with(opened, path)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "opened",
    [size(640, "light"), size(1280, "dark", forced_colors="active", reduced_motion="reduce")],
    ids=["twice-as-large", "forced-colours"],
    indirect=True,
)
def test_pages_can_be_read_large_and_in_the_colours_of_the_system(
    site: Site, whole: dict[str, str], opened: Page
) -> None:
    wrong = []
    for path in [f"/jobs/{whole['ended']}", f"/jobs/{whole['fails']}/errors", "/jobs", "/help/components"]:
        opened.goto(site.url + path)
        wrong += wrong_with(opened, path)
        assert (
            opened.evaluate("getComputedStyle(document.querySelector('a.brand')).transitionDuration") == "0s"
        )
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "opened", [size(1280, "light"), size(320, "dark")], ids=["wide", "narrow"], indirect=True
)
def test_states_that_no_address_leads_to_can_be_used_by_everybody(
    site: Site, whole: dict[str, str], opened: Page
) -> None:
    """Forms that were refused, questions before something is done, what was done, open details."""
    wrong = []
    page = opened

    def look(what: str) -> None:
        wrong.extend(wrong_with(page, what))

    page.goto(f"{site.url}/submit")
    page.fill("#job", "mini_batchsize: 1")
    page.click("button:has-text('Submit')")
    expect(page.locator("[role=alert]")).to_be_visible()
    look("submit, refused")
    page.goto(f"{site.url}/jobs/{whole['ended']}/resume")
    page.fill("#set", "mini_batch_size=2")
    page.click("button:has-text('Resume the job')")
    look("resume, refused")
    page.goto(f"{site.url}/jobs/{whole['ended']}/remove")
    page.fill("#name", "wrong")
    page.click("button:has-text('Remove the job')")
    look("remove, refused")
    page.goto(f"{site.url}/endpoints/letters-batch/invoke")
    page.click("button:has-text('Call letters-batch')")
    look("call, refused")
    page.goto(f"{site.url}/endpoints")
    page.fill("#name", "a b")
    page.click("button:has-text('Create')")
    look("endpoints, refused")
    page.goto(f"{site.url}/login")
    page.fill("#token", "wrong")
    page.click("button:has-text('Log in')")
    look("login, refused")
    page.goto(f"{site.url}/admin/tokens")
    page.fill("#name", "made")
    page.click("button:has-text('Make the token')")
    look("token, made")
    for verb in ["Cancel", "Resume", "Resubmit", "Delete"]:
        page.goto(f"{site.url}/jobs?q=name:ended")
        page.check("tbody input >> nth=0")
        page.click(f"button:has-text('{verb}…')")
        look(f"selected, {verb}")
    page.goto(f"{site.url}/jobs/{whole['fails']}")
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    look("job, everything open")
    assert not wrong, "\n".join(wrong)


def test_the_html_of_all_pages_is_valid(
    site: Site, whole: dict[str, str], session: BrowserContext, tmp_path: Path
) -> None:
    for at, path in enumerate(pages(site, whole)):
        answer = session.request.get(site.url + path, headers={"accept": "text/html"})
        (tmp_path / f"{at:03}.html").write_bytes(answer.body())
    command = ["java", "-jar", os.environ["PRS_TEST_VNU"], "--format", "json", "--stdout", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True)
    named = dict(enumerate(pages(site, whole)))
    found = [
        f"{named[int(Path(one['url']).stem)]}: {one['message']}: {one.get('extract', '')}"
        for one in json.loads(ended.stdout)["messages"]
        if (one["type"] == "error" or one.get("subType") == "warning")
        # Properties of SVG that the checker does not know.
        and not one["message"].startswith("CSS:")
        # What browsers know, and the checker does not: a folder is chosen.
        and "webkitdirectory" not in one["message"]
    ]
    assert not found, "\n".join(found)
