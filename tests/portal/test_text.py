"""What users and their programs write is text, wherever it is shown."""

from __future__ import annotations

import json

from playwright.sync_api import BrowserContext
from site_of_tests import DEADLINE, Site, heard

EVIL = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>"
# Links, colours and moves of a terminal, and letters that turn the direction of text round.
ODD = "\x1b]8;;javascript:alert(3)\x07link\x1b]8;;\x07\x1b[31m" + EVIL + "\x1b[0m\x9b2J\u202e"
SCRIPT = f"""
import os
import sys

EVIL, ODD = {EVIL!r}, {ODD!r}


class Evil(Exception):
    pass


Evil.__name__ = Evil.__qualname__ = EVIL


def run(batch):
    print(EVIL, ODD)
    print(EVIL, ODD, file=sys.stderr)
    if os.path.basename(batch[0]).startswith("1"):
        raise Evil(EVIL + ODD)
    return [EVIL for each in batch]
"""


def test_nothing_of_a_users_text_is_markup(site: Site, session: BrowserContext) -> None:
    # Some of the addresses are wrong, which the browser says on its console.
    page = session.new_page()
    said, _ = heard(page)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    name = "evil<img src=x onerror=alert(4)>.txt"
    site.write({f"evil/data/{name}": "x", f"evil/data/1{name}": "x"})
    keys = {"display_name": EVIL, "description": EVIL, "tags": {EVIL: EVIL}, "arguments": [EVIL]}
    keys |= {"environment_variables": {"EVIL": EVIL}, "append_row_file_name": "rows.txt"}
    assert site.start("evil", 1, SCRIPT, keys).wait(DEADLINE) == 0
    job = site.id_of("evil")
    run = site.folder / "prs-runs" / job
    (run / f"output/{name}").write_text(f"a,b\n{EVIL},1\n")
    (run / f"logs/user/{name}").write_text(EVIL)
    site.run("endpoint", "create", "-n", "evil-batch", "--set", f"description={EVIL}", "-q")
    component = {
        "type": "pipeline",
        "inputs": {"word": {"type": "string", "description": EVIL, "default": EVIL}},
        "jobs": {"say": {"command": "echo ${{inputs.word}}", "inputs": {"word": "${{parent.inputs.word}}"}}},
    }
    site.write({"evil/component.yml": json.dumps(component)})
    site.write({"evil/deployment.yml": "type: pipeline\ncomponent: component.yml\n"})
    site.run("deployment", "create", "-f", "evil/deployment.yml", "-e", "evil-batch", "-n", "one", "-q")
    site.run("dataset", "create", "--name", "evil", "--path", "evil/data", "--description", EVIL, "-q")
    site.token(EVIL[:64], "read")
    paths = [f"/jobs/{job}{tab}" for tab in ["", "/errors", "/mini-batches?state=all", "/mini-batches/0"]]
    paths += [f"/jobs/{job}{tab}" for tab in ["/mini-batches/1", "/nodes", "/logs", "/output", "/settings"]]
    paths += [
        f"/jobs/{job}{tab}" for tab in ["/code/main.py", "/resume", "/resubmit", "/remove", "/report.html"]
    ]
    paths += [f"/jobs/{job}/logs/user/stdout/0/process000.stdout.txt", f"/jobs/{job}/logs?q=img"]
    paths += [
        f"/jobs/{job}/logs/user/error/0/process000.txt",
        "/jobs",
        f"/compare?a={job}&b={site.id_of('ended')}",
    ]
    evil = "%3Cimg%20src%3Dx%20onerror%3Dalert(5)%3E%22%27%3E"
    paths += [f"/jobs?q={evil}", f"/jobs?state={evil}", f"/jobs/{evil}", f"/jobs/{job}/logs?q={evil}"]
    paths += [f"/jobs/{job}/mini-batches?index={evil}", f"/jobs/{job}/mini-batches?group={evil}", f"/{evil}"]
    paths += [f"/compare?a={evil}&b={evil}", f"/jobs/{job}/resume?only_group={evil}", f"/login?next={evil}"]
    paths += [
        f"/jobs/{job}/code?frame={evil}",
        "/endpoints",
        "/endpoints/evil-batch",
        "/endpoints/evil-batch/edit",
        "/endpoints/evil-batch/invoke",
    ]
    paths += [f"/registry/data?q={evil}", "/registry/data/evil", "/registry/data/evil/1", "/admin/tokens"]
    paths += [f"/admin/audit?principal={evil}", f"/problems/{evil}", f"/registry/{evil}", f"/fleet/{evil}"]
    for path in paths:
        page.goto(site.url + path)
        assert page.locator("img, main script, a[href^=javascript]").count() == 0, path
        body = page.content()
        assert "\x1b" not in body and "\x9b" not in body, path
    page.goto(f"{site.url}/submit")
    page.fill("#job", EVIL)
    page.fill("#set", EVIL)
    page.fill("#name", EVIL)
    page.click("button:has-text('Submit')")
    assert page.locator("img, main script").count() == 0
    assert page.input_value("#set") == EVIL
    assert dialogs == []
    assert [line for line in said if "status of 4" not in line] == []
    page.close()
