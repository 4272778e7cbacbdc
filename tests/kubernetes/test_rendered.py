"""What comes out of ops/kubernetes: all objects of each overlay together.

Needs `kustomize` (in `PRS_TEST_KUSTOMIZE`, or on the path), or `kubectl`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from objects import MANIFESTS, Object, check, containers, name_of, pod_of, unsafe

OVERLAYS = [
    "base",
    "overlays/workers-deployment",
    "overlays/server",
    "overlays/monitoring",
    "overlays/keda",
    "overlays/keda-deployment",
    "overlays/demo",
    "submit",
]
# Made by hand, but for the demo; and in whatever namespace a fleet is in.
BY_HAND = {"Secret/prs-servers", "Secret/prs-first-token"}
# There for the workers that other overlays bring.
OF_WORKERS = {"NetworkPolicy/collect-metrics"}


def render(folder: str) -> list[Object]:
    if kustomize := os.environ.get("PRS_TEST_KUSTOMIZE") or shutil.which("kustomize"):
        command = [kustomize, "build"]
    else:
        assert shutil.which("kubectl"), (
            "neither kustomize nor kubectl is here: make test-kubernetes builds the former"
        )
        command = ["kubectl", "kustomize"]
    done = subprocess.run([*command, str(MANIFESTS / folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(scope="module", params=OVERLAYS)
def rendered(request: pytest.FixtureRequest) -> tuple[str, list[Object]]:
    return request.param, render(request.param)


def test_all_objects_are_what_their_apis_take(rendered: tuple[str, list[Object]]) -> None:
    _, objects = rendered
    names = [name_of(one) for one in objects]
    assert len(names) == len(set(names))
    for one in objects:
        check(one)
        pod = pod_of(one)
        assert pod is None or unsafe(pod) == [], name_of(one)
        is_of_cluster = one["kind"] in ("Namespace", "PriorityClass")
        assert one["metadata"].get("namespace") == (None if is_of_cluster else "prs"), name_of(one)


def test_an_autoscaler_says_how_many_workers_there_are() -> None:
    objects = {name_of(one): one for one in render("overlays/keda-deployment")}
    scaled, deployment = (objects[f"{kind}/prs-worker-default"] for kind in ("ScaledObject", "Deployment"))
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert "replicas" not in deployment["spec"], "each apply would undo what the autoscaler said"


def test_pods_of_a_scaled_job_can_be_kept_where_they_are(tmp_path: Path) -> None:
    keda, component = (
        os.path.relpath(MANIFESTS / folder, tmp_path.resolve())
        for folder in ("overlays/keda", "components/never-evicted")
    )
    (tmp_path / "kustomization.yaml").write_text(f"resources: [{keda}]\ncomponents: [{component}]\n")
    (scaled,) = (one for one in render(str(tmp_path)) if one["kind"] == "ScaledJob")
    check(scaled)
    pod = pod_of(scaled)
    assert pod
    assert pod["metadata"]["annotations"] == {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def named_by(pod: Object) -> set[str]:
    """The objects without which a pod does not start."""
    spec = pod["spec"]
    found = set()
    if account := spec.get("serviceAccountName"):
        found.add(f"ServiceAccount/{account}")
    if priority := spec.get("priorityClassName"):
        found.add(f"PriorityClass/{priority}")
    for volume in spec.get("volumes", []):
        if "configMap" in volume:
            found.add(f"ConfigMap/{volume['configMap']['name']}")
    for one in containers(pod):
        for source in one.get("envFrom", []):
            for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                if key in source:
                    found.add(f"{kind}/{source[key]['name']}")
        for variable in one.get("env", []):
            if secret := variable.get("valueFrom", {}).get("secretKeyRef"):
                found.add(f"Secret/{secret['name']}")
    return found


def test_pods_find_what_they_name(rendered: tuple[str, list[Object]]) -> None:
    folder, objects = rendered
    there = {name_of(one) for one in objects}
    if folder == "submit":
        there |= {name_of(one) for one in render("base")}
    if folder != "overlays/demo":
        there |= BY_HAND
    for one in objects:
        if pod := pod_of(one):
            assert named_by(pod) <= there, name_of(one)
            mounted = {
                mount["name"] for container in containers(pod) for mount in container.get("volumeMounts", [])
            }
            claims = {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", [])}
            assert mounted == {volume["name"] for volume in pod["spec"].get("volumes", [])} | claims, name_of(
                one
            )


def selects(selector: Object, labels: dict[str, str]) -> bool:
    """Whether a selector of pods takes one with these labels."""
    for expression in selector.get("matchExpressions", []):
        assert expression["operator"] == "In"
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def test_selectors_select(rendered: tuple[str, list[Object]]) -> None:
    folder, objects = rendered
    pods = [pod["metadata"]["labels"] for one in objects if (pod := pod_of(one))]
    clients = [pod["metadata"]["labels"] for one in render("submit") if (pod := pod_of(one))]
    for one in objects:
        spec = one.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is None:
            continue
        if one["kind"] == "Service":
            selector = {"matchLabels": selector}
        if one["kind"] in ("Deployment", "StatefulSet"):
            assert selects(selector, spec["template"]["metadata"]["labels"]), name_of(one)
        elif folder != "base" and not (folder == "overlays/server" and name_of(one) in OF_WORKERS):
            assert any(selects(selector, labels) for labels in pods + clients), name_of(one)


def test_every_pod_may_reach_something_and_servers_are_reached() -> None:
    objects = render("overlays/demo")
    policies = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    by_way = {
        way: [one for one in policies if way in one["policyTypes"] and one.get(way.lower())]
        for way in ("Ingress", "Egress")
    }
    for one in objects + render("submit"):
        if pod := pod_of(one):
            labels = pod["metadata"]["labels"]
            # A server calls nobody, and nobody calls the others.
            way = "Ingress" if labels["app.kubernetes.io/component"] == "server" else "Egress"
            assert any(selects(policy["podSelector"], labels) for policy in by_way[way]), name_of(one)
