"""The dashboard for Grafana: it is what its script makes, and asks for what programs of prs tell."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
GRAFANA = ROOT / "ops/grafana"
DASHBOARD: dict[str, Any] = json.loads((GRAFANA / "prs.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
# Of every series that Prometheus collects.
OF_PROMETHEUS = {"instance", "job"}


def documented() -> dict[str, tuple[str, set[str]]]:
    """Type and labels of each metric, as docs/metrics.md has them; other tests compare it with programs."""
    page = (ROOT / "docs/metrics.md").read_text()
    rows = re.findall(r"(?m)^\| `(prs_\w+|process_\w+)` \| (\w+) \| (.*?) \|", page)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def metric_of(series: str, metrics: dict[str, tuple[str, set[str]]]) -> str:
    """The metric that a series is of: a histogram has three."""
    whole = re.sub(r"_(bucket|sum|count)$", "", series)
    return whole if metrics.get(whole, ("", set()))[0] == "histogram" else series


def test_it_is_what_its_script_makes(tmp_path: Path) -> None:
    subprocess.run([GRAFANA / "make-dashboard", tmp_path / "made.json"], check=True)
    assert (tmp_path / "made.json").read_text() == (GRAFANA / "prs.json").read_text(), (
        "run ops/grafana/make-dashboard"
    )


def test_it_can_be_read_by_any_grafana_of_today() -> None:
    assert DASHBOARD["schemaVersion"] >= 39
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == ["DS_PROMETHEUS", "target"]
    sources = [one["datasource"]["uid"] for panel in PANELS for one in [panel, *panel["targets"]]]
    assert set(sources) == {"${DS_PROMETHEUS}"}
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Fleet", "Work", "Server", "Dependencies"]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))


def test_no_panel_covers_another() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} and {taken[x, y]}"
                taken[x, y] = panel["title"]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_it_asks_for_metrics_and_labels_that_there_are(expression: str) -> None:
    metrics = documented()
    named = [metric_of(series, metrics) for series in re.findall(r"\b(?:prs|process)_\w+", expression)]
    assert named and set(named) <= set(metrics)
    labels = OF_PROMETHEUS | {"le"}.union(*(metrics[name][1] for name in named))
    asked = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", expression)
    for grouped in re.findall(r"\b(?:by|without) \((.*?)\)", expression):
        asked += [label.strip() for label in grouped.split(",")]
    assert set(asked) <= labels


def test_a_curve_is_named_by_labels_that_it_has() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            kept = re.findall(r"\bby \((.*?)\)", target["expr"])
            has = {label.strip() for label in ",".join(kept).split(",")} if kept else OF_PROMETHEUS
            assert named <= has, (panel["title"], target["expr"])
            if "sum(" in target["expr"]:
                assert not named, target["expr"]


def test_figures_of_the_fleet_are_not_added_up_over_servers() -> None:
    for expression in EXPRESSIONS:
        if "prs_target_" in expression:
            assert re.match(r"max by \(", expression), expression


def test_the_composed_grafana_finds_its_parts() -> None:
    composed = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    mounts = dict(volume.split(":")[:2] for volume in composed["grafana"]["volumes"])
    for here, there in mounts.items():
        assert not here.startswith("./") or (ROOT / here).exists(), here
        assert there.startswith("/")
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/prs.yml").read_text())["providers"]
    assert mounts["./ops/grafana/prs.json"] == f"{provider['options']['path']}/prs.json"
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090" and "prometheus" in composed


def test_the_composed_prometheus_collects_what_listens() -> None:
    composed = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    collected = yaml.safe_load((ROOT / "ops/prometheus/prometheus.yml").read_text())
    ports = {}
    for job in collected["scrape_configs"]:
        (names,) = job["dns_sd_configs"]
        for service in names["names"]:
            ports[service] = names["port"]
    server = composed["server"]["command"]
    assert server[server.index("--metrics-listen") + 1] == f"0.0.0.0:{ports['server']}"
    assert composed["worker"]["environment"]["PRS_METRICS"] == f"0.0.0.0:{ports['worker']}"
    for file in collected["rule_files"]:
        assert (ROOT / "ops/prometheus" / file).exists()
    assert "./ops/prometheus:/etc/prs:ro" in composed["prometheus"]["volumes"]
