"""ops/kubernetes in a real control plane: its objects are accepted as they stand, and become pods.

Needs what `cluster.py` says.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cluster import Cluster, Object, cluster, wait_for

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "ops/kubernetes"
OVERLAYS = sorted(path.parent for path in (MANIFESTS / "overlays").glob("*/kustomization.yaml"))


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster() as made:
        made.add_node("node-1")
        definitions = sorted((made.bin / "custom-resources").glob("*.yaml"))
        assert definitions, "ops/kubernetes/install-control-plane brings them"
        for file in definitions:
            made.apply(*yaml.safe_load_all(file.read_text()))
        wait_for(
            "the API knows the custom resources",
            lambda: all(
                any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
                for definition in made.get("customresourcedefinitions")
                if (conditions := definition.get("status", {}).get("conditions", [])) is not None
            ),
        )
        yield made


def rendered(running: Cluster, folder: Path) -> list[Object]:
    text = running.kubectl("kustomize", str(folder)).stdout
    return [one for one in yaml.safe_load_all(text) if one]


def pods(running: Cluster, selector: str) -> list[Object]:
    return running.get("pods", "-n", "prs", "-l", selector)


def secret(name: str, **values: str) -> Object:
    metadata = {"name": name, "namespace": "prs"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


@pytest.mark.parametrize("folder", OVERLAYS, ids=lambda folder: folder.name)
def test_the_api_takes_an_overlay_twice(running: Cluster, folder: Path) -> None:
    objects = rendered(running, folder)
    running.apply(*objects)
    again = running.apply(*objects)
    assert len(again.stdout.splitlines()) == len(objects)


def test_the_api_takes_the_job_that_submits(running: Cluster) -> None:
    running.apply(*rendered(running, MANIFESTS / "base"))
    running.apply(*rendered(running, MANIFESTS / "submit"))
    wait_for("it has its pod", lambda: pods(running, "job-name=submit-words"))


def test_the_namespace_refuses_what_is_not_restricted(running: Cluster) -> None:
    running.apply(*rendered(running, MANIFESTS / "base"))
    container = {"name": "x", "image": "x"}
    metadata = {"name": "x", "namespace": "prs"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    assert "violates PodSecurity" in running.refused(pod)
    (service,) = (one for one in rendered(running, MANIFESTS / "overlays/server") if one["kind"] == "Service")
    service["spec"]["prots"] = []
    assert "prots" in running.refused(service)


def test_deployments_become_pods_that_a_node_gets(running: Cluster) -> None:
    for overlay in ("workers-deployment", "server"):
        running.apply(*rendered(running, MANIFESTS / "overlays" / overlay))
    for component, count in (("worker", None), ("portal", 2)):
        selector = f"app.kubernetes.io/component={component}"

        def bound(selector: str = selector, count: int | None = count) -> bool:
            found = [pod for pod in pods(running, selector) if pod["spec"].get("nodeName") == "node-1"]
            return len(found) == count if count else bool(found)

        wait_for(f"pods of {component} have a node", bound)


def test_a_budget_keeps_one_server(running: Cluster) -> None:
    running.apply(*rendered(running, MANIFESTS / "overlays/server"))
    wait_for("there are pods of the server", lambda: pods(running, "app.kubernetes.io/component=portal"))
    pod = pods(running, "app.kubernetes.io/component=portal")[0]
    name = pod["metadata"]["name"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "prs"},
    }
    # Without a kubelet none is ready, so there is none that may go.
    ready = {"type": "Ready", "status": "True"}
    status = {"status": {"phase": "Running", "conditions": [ready]}}
    words = (
        "patch",
        "pod",
        name,
        "-n",
        "prs",
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps(status),
    )
    running.kubectl(*words)
    path = f"/api/v1/namespaces/prs/pods/{name}/eviction"

    def is_refused() -> bool:
        done = running.kubectl("create", "--raw", path, "-f", "-", given=json.dumps(eviction), check=False)
        return done.returncode != 0 and "disruption budget" in done.stderr

    wait_for("the last ready server may not be evicted", is_refused)


def test_a_scaled_job_makes_a_job_with_a_worker(running: Cluster) -> None:
    objects = rendered(running, MANIFESTS / "overlays/keda")
    running.apply(*objects)
    (scaled,) = (one for one in objects if one["kind"] == "ScaledJob")
    # What KEDA's operator makes of it, one for each worker that is missing.
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "prs-worker-default-x", "namespace": "prs"},
        "spec": copy.deepcopy(scaled["spec"]["jobTargetRef"]),
    }
    running.apply(job)
    selector = "job-name=prs-worker-default-x"
    wait_for(
        "the worker has a node",
        lambda: [pod for pod in pods(running, selector) if pod["spec"].get("nodeName")],
    )


def test_the_collection_is_a_job_when_its_time_comes(running: Cluster) -> None:
    running.apply(*rendered(running, MANIFESTS / "base"))
    running.kubectl("create", "job", "-n", "prs", "gc-now", "--from=cronjob/prs-gc")
    wait_for("it has its pod", lambda: pods(running, "job-name=gc-now"))


def test_stateful_servers_of_the_demo_get_pods(running: Cluster) -> None:
    running.apply(*rendered(running, MANIFESTS / "overlays/demo"))
    for name in ("rabbitmq", "redis", "minio"):
        wait_for(f"{name} has a pod", lambda name=name: pods(running, f"app.kubernetes.io/name={name}"))


def test_what_the_pods_may_not_is_a_role_that_they_do_not_have(running: Cluster) -> None:
    running.apply(*rendered(running, MANIFESTS / "base"))
    for account in running.get("serviceaccounts", "-n", "prs"):
        if account["metadata"]["name"] == "default":
            continue
        user = f"system:serviceaccount:prs:{account['metadata']['name']}"
        for verb, what in (("list", "pods"), ("get", "secrets"), ("create", "jobs.batch")):
            done = running.kubectl("auth", "can-i", verb, what, "-n", "prs", f"--as={user}", check=False)
            assert done.stdout.strip() == "no", (user, verb, what)
