"""The files of ops/kubernetes as they stand: no program of Kubernetes is needed.

Needs `PRS_TEST_BIN_DIR`, the folder with the built programs: what they are called with must exist.
"""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml
from objects import MANIFESTS, ROOT, Object, check, containers, name_of, pod_of, read, unsafe

RESOURCES = sorted(
    path
    for path in MANIFESTS.rglob("*.yaml")
    if path.name != "kustomization.yaml" and read(path)[0].get("apiVersion")
)
KUSTOMIZATIONS = sorted(
    [*MANIFESTS.rglob("kustomization.yaml"), *(ROOT / "ops").glob("*/kustomization.yaml")]
)
OBJECTS = [pytest.param(one, id=name_of(one)) for path in RESOURCES for one in read(path)]


@pytest.mark.parametrize("one", OBJECTS)
def test_an_object_is_what_its_api_takes(one: Object) -> None:
    check(one)


@pytest.mark.parametrize("one", OBJECTS)
def test_a_pod_is_as_safe_as_the_namespace_demands(one: Object) -> None:
    pod = pod_of(one)
    assert pod is None or unsafe(pod) == []


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=lambda path: path.parent.name)
def test_a_kustomization_names_what_is_there(path: Path) -> None:
    (one,) = read(path)
    named = one.get("resources", []) + [
        file for generator in one.get("configMapGenerator", []) for file in generator["files"]
    ]
    named += one.get("components", [])
    assert named or one.get("patches"), "it does nothing"
    assert [name for name in named if not (path.parent / name).exists()] == []
    beside = {file.name for file in path.parent.glob("*.yaml")} - {"kustomization.yaml"}
    if MANIFESTS in path.parents:
        assert beside - set(named) == set(), "a file that nothing names"


def test_the_image_is_of_this_version() -> None:
    version = re.search(r'(?m)^version = "(.*)"', (ROOT / "Cargo.toml").read_text())
    assert version
    tags = [
        image["newTag"]
        for path in KUSTOMIZATIONS
        for image in read(path)[0].get("images", [])
        if image["name"] == "prs"
    ]
    assert tags and set(tags) == {version[1]}


@pytest.mark.parametrize("one", OBJECTS)
def test_programs_of_prs_get_no_root_of_an_empty_folder(one: Object) -> None:
    """Everybody may write there, so prs makes nothing in it: an init container makes what is mounted."""
    if (pod := pod_of(one)) is None:
        return
    empty = {volume["name"] for volume in pod["spec"].get("volumes", []) if "emptyDir" in volume}
    made = " ".join(
        word for container in pod["spec"].get("initContainers", []) for word in container["command"]
    )
    for container in pod["spec"]["containers"]:
        for mount in container.get("volumeMounts", []):
            if container["image"] == "prs" and mount["name"] in empty:
                assert f"/volumes/{mount['name']}/{mount['subPath']}" in made


@cache
def options_of(command: str) -> set[str]:
    program = Path(os.environ["PRS_TEST_BIN_DIR"]) / "prs"
    help_text = subprocess.run([program, command, "--help"], check=True, capture_output=True, text=True)
    return set(re.findall(r"--[a-z][a-z-]*", help_text.stdout))


def test_programs_are_called_with_options_that_they_have() -> None:
    called = set()
    for parameter in OBJECTS:
        pod = pod_of(parameter.values[0])
        for one in containers(pod) if pod else ():
            words = [*one.get("command", []), *one.get("args", [])]
            if words[:1] == ["prs-worker"]:
                words[:1] = ["prs", "worker"]
            if words[:1] == ["prs"]:
                called.add(words[1])
                options = {word for word in words if word.startswith("--")}
                assert options <= options_of(words[1]), words
    assert called == {"worker", "gc", "submit", "serve"}


def alerts() -> list[Object]:
    return yaml.safe_load((ROOT / "ops/prometheus/alerts.yml").read_text())["groups"]


def test_the_operator_has_the_same_alerts() -> None:
    (rule,) = read(MANIFESTS / "overlays/monitoring/alerts.yaml")
    assert rule["spec"]["groups"] == alerts()


def test_alerts_are_over_metrics_that_exist_and_are_documented() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    exported = set(re.findall(r"(?m)^\| `(prs_\w+)`", page))
    for rule in (rule for group in alerts() for rule in group["rules"]):
        named = set(re.findall(r"\bprs_\w+", rule["expr"]))
        assert named and named <= exported
        assert f"| `{rule['alert']}` |" in page


def test_every_alert_leads_to_its_paragraph_of_the_runbook() -> None:
    text = (ROOT / "docs/runbook.md").read_text()
    headings = {heading.lower() for heading in re.findall(r"(?m)^### (Prs\w+)$", text)}
    rules = [rule for group in alerts() for rule in group["rules"]]
    assert {rule["alert"].lower() for rule in rules} == headings
    for rule in rules:
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"


def test_the_ports_are_those_that_are_collected() -> None:
    (deployment,) = read(MANIFESTS / "components/workers/deployment.yaml")
    (worker,) = deployment["spec"]["template"]["spec"]["containers"]
    (port,) = worker["ports"]
    assert f"0.0.0.0:{port['containerPort']}" in worker["args"]
    monitors = {
        one["metadata"]["name"]: one for one in read(MANIFESTS / "overlays/monitoring/pod-monitors.yaml")
    }
    for monitor in monitors.values():
        assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == port["name"]
    (server,) = read(MANIFESTS / "overlays/server/deployment.yaml")
    labels = server["spec"]["template"]["metadata"]["labels"]
    assert monitors["prs-server"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (container,) = server["spec"]["template"]["spec"]["containers"]
    assert port["name"] in [one["name"] for one in container["ports"]]
    policies = {one["metadata"]["name"]: one for one in read(MANIFESTS / "base/network-policies.yaml")}
    opened = policies["collect-metrics"]["spec"]["ingress"][0]["ports"]
    assert [one["port"] for one in opened] == [port["containerPort"]]


def test_the_autoscaler_asks_where_the_server_answers() -> None:
    scaled = [
        one
        for path in ("keda/scaled-job.yaml", "keda-deployment/scaled-object.yaml")
        for one in read(MANIFESTS / "overlays" / path)
    ]
    (authentication,) = read(MANIFESTS / "components/autoscaler/trigger-authentication.yaml")
    (service, budget) = read(MANIFESTS / "overlays/server/service.yaml")
    (server,) = read(MANIFESTS / "overlays/server/deployment.yaml")
    host = f"{service['metadata']['name']}.prs.svc"
    (port,) = service["spec"]["ports"]
    for one in scaled:
        (trigger,) = one["spec"]["triggers"]
        assert trigger["metadata"]["url"] == f"http://{host}:{port['port']}/api/v1/targets/default"
        assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    (container,) = server["spec"]["template"]["spec"]["containers"]
    assert container["args"][container["args"].index("--allow-host") + 1] == host
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    for option, name in (("--listen", "http"), ("--metrics-listen", "metrics")):
        assert container["args"][container["args"].index(option) + 1] == f"0.0.0.0:{ports[name]}"
    (policy,) = read(MANIFESTS / "overlays/server/network-policies.yaml")
    opened = [one["port"] for rule in policy["spec"]["ingress"] for one in rule["ports"]]
    assert sorted(opened) == sorted(ports.values())
    labels = server["spec"]["template"]["metadata"]["labels"]
    for selector in (service["spec"]["selector"], budget["spec"]["selector"]["matchLabels"]):
        assert selector == labels


def test_a_scaled_worker_is_the_deployed_one_that_ends_when_it_is_idle() -> None:
    (deployment,) = read(MANIFESTS / "components/workers/deployment.yaml")
    scaled = read(MANIFESTS / "overlays/keda/scaled-job.yaml")[-1]
    there, here = (pod_of(one)["spec"] for one in (deployment, scaled))
    assert here.pop("restartPolicy") == "Never"
    args = here["containers"][0]["args"]
    at = args.index("--exit-when-idle")
    del args[at : at + 2]
    assert here == there
