"""Endpoints and what is registered: created, changed, called, archived and deleted by forms."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from site_of_tests import DEADLINE, Site


def test_an_endpoint_is_created_deployed_to_and_deleted(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/endpoints")
    page.fill("#name", "A b")
    page.click("button:has-text('Create')")
    expect(page.locator("[role=alert]")).to_be_visible()
    page.fill("#name", "by-form")
    page.fill("#description", "<i>Made</i> by a form.")
    page.click("button:has-text('Create')")
    expect(page.locator("h1")).to_have_text("by-form")
    expect(page.locator(".empty").first).to_contain_text("No deployment answers yet")
    file = "letters-batch/deployment.yml"
    for name in ["one", "two"]:
        site.run("deployment", "create", "-f", file, "-e", "by-form", "-n", name, "-q")
    page.reload()
    page.click("[aria-label='Make two the default']")
    expect(page.locator("tr", has=page.locator("th", has_text="two"))).to_contain_text("default")
    page.click("text=Edit…")
    page.fill("#description", "Other words")
    page.fill("#tags", "team=vision")
    page.click("button:has-text('Save')")
    expect(page.locator(".description")).to_have_text("Other words")
    page.click("[aria-label='Delete one…']")
    page.fill("#typed", "wrong")
    page.click("main button:has-text('Delete')")
    expect(page.locator("[role=alert]")).to_be_visible()
    page.fill("#typed", "one")
    page.click("main button:has-text('Delete')")
    expect(page.locator("table.jobs tbody tr")).to_have_count(1)
    page.click("a.button:has-text('Delete…') >> nth=0")
    page.fill("#typed", "by-form")
    page.click("main button:has-text('Delete')")
    page.wait_for_url("**/endpoints")
    assert page.locator("text=by-form").count() == 0


def test_a_registered_version_says_who_uses_it_and_is_archived(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/registry")
    page.click("nav.states >> text=Data")
    page.click("table.jobs a:has-text('letters')")
    page.click("table.jobs a:has-text('1')")
    expect(page.locator("h1")).to_contain_text("letters, version 1")
    expect(page.locator("main")).to_contain_text("a.txt")
    site.run("dataset", "create", "--name", "old", "--path", "letters-batch/letters", "-q")
    page.goto(f"{site.url}/registry/data/old/1")
    page.click("button:has-text('Archive')")
    expect(page.locator("h1")).to_contain_text("archived")
    page.click("button:has-text('Restore')")
    expect(page.locator("h1")).not_to_contain_text("archived")
    page.click("text=Delete…")
    page.fill("#typed", "old:1")
    page.click("main button:has-text('Delete')")
    page.wait_for_url(re.compile("/registry/data$"))
    page.goto(f"{site.url}/registry/data?q=old")
    expect(page.locator(".empty")).to_contain_text("Nothing fits")


def test_a_model_says_which_deployment_uses_it(site: Site, page: Page) -> None:
    site.run("model", "create", "--name", "weights", "--path", "letters-batch/model", "-q")
    page.goto(f"{site.url}/registry/models")
    page.click("table.jobs a:has-text('weights') >> nth=0")
    expect(page.locator("table.jobs tbody tr")).to_have_count(1, timeout=DEADLINE * 1000)
