"""What a Kubernetes object must be: valid for its API, and as safe as the namespace demands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "ops/kubernetes"
# The oldest version that is still supported by its makers, and the newest that the package knows.
VERSIONS = ["1.34.0", kubernetes_validate.latest_version()]

Object = dict[str, Any]

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": _TEXT, "namespace": _TEXT, "labels": _TEXTS, "annotations": _TEXTS},
    "additionalProperties": False,
}


def _schema(kind: str, spec: Object, api: str = "monitoring.coreos.com/v1") -> Object:
    return {
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": api},
            "kind": {"const": kind},
            "metadata": _METADATA,
            "spec": spec,
        },
        "additionalProperties": False,
    }


def _keys(required: list[str], **properties: Object) -> Object:
    """An object that has these keys alone."""
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


_DURATION = {"type": "string", "pattern": "^([0-9]+(ms|[smhdwy]))+$"}
_ENDPOINT = {
    "type": "object",
    "required": ["port"],
    "properties": {"port": _TEXT, "path": _TEXT, "interval": _DURATION, "scrapeTimeout": _DURATION},
    "additionalProperties": False,
}
_RULE = {
    "type": "object",
    "required": ["alert", "expr"],
    "properties": {"alert": _TEXT, "expr": _TEXT, "for": _DURATION, "labels": _TEXTS, "annotations": _TEXTS},
    "additionalProperties": False,
}

_KEDA = "keda.sh/v1alpha1"
_COUNT = {"type": "integer", "minimum": 0}
_TRIGGERS = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["type", "metadata"],
        "properties": {
            "type": _TEXT,
            "metadata": _TEXTS,
            "authenticationRef": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": _TEXT},
                "additionalProperties": False,
            },
        },
        "additionalProperties": False,
    },
}

# Those of operators, as far as they are used here: the API of a bare cluster does not have them.
OF_OPERATORS = {
    "PodMonitor": _schema(
        "PodMonitor",
        {
            "type": "object",
            "required": ["selector", "podMetricsEndpoints"],
            "properties": {
                "selector": {
                    "type": "object",
                    "properties": {"matchLabels": _TEXTS},
                    "additionalProperties": False,
                },
                "podMetricsEndpoints": {"type": "array", "minItems": 1, "items": _ENDPOINT},
            },
            "additionalProperties": False,
        },
    ),
    "PrometheusRule": _schema(
        "PrometheusRule",
        {
            "type": "object",
            "required": ["groups"],
            "properties": {
                "groups": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name", "rules"],
                        "properties": {"name": _TEXT, "rules": {"type": "array", "items": _RULE}},
                        "additionalProperties": False,
                    },
                }
            },
            "additionalProperties": False,
        },
    ),
    "TriggerAuthentication": _schema(
        "TriggerAuthentication",
        {
            "type": "object",
            "required": ["secretTargetRef"],
            "properties": {
                "secretTargetRef": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["parameter", "name", "key"],
                        "properties": {"parameter": _TEXT, "name": _TEXT, "key": _TEXT},
                        "additionalProperties": False,
                    },
                }
            },
            "additionalProperties": False,
        },
        _KEDA,
    ),
    "ScaledJob": _schema(
        "ScaledJob",
        {
            "type": "object",
            "required": ["jobTargetRef", "triggers"],
            "properties": {
                "pollingInterval": _COUNT,
                "minReplicaCount": _COUNT,
                "maxReplicaCount": _COUNT,
                "successfulJobsHistoryLimit": _COUNT,
                "failedJobsHistoryLimit": _COUNT,
                "rollout": {
                    "type": "object",
                    "properties": {"strategy": {"enum": ["default", "immediate", "gradual"]}},
                    "additionalProperties": False,
                },
                "scalingStrategy": {
                    "type": "object",
                    "properties": {"strategy": {"enum": ["default", "custom", "accurate", "eager"]}},
                    "additionalProperties": False,
                },
                # Checked as a Job of its own.
                "jobTargetRef": {"type": "object", "required": ["template"]},
                "triggers": _TRIGGERS,
            },
            "additionalProperties": False,
        },
        _KEDA,
    ),
    "ScaledObject": _schema(
        "ScaledObject",
        _keys(
            ["scaleTargetRef", "triggers"],
            scaleTargetRef=_keys(["name"], name=_TEXT),
            pollingInterval=_COUNT,
            cooldownPeriod=_COUNT,
            minReplicaCount=_COUNT,
            maxReplicaCount=_COUNT,
            fallback=_keys(
                ["failureThreshold", "replicas"],
                failureThreshold=_COUNT,
                replicas=_COUNT,
                behavior={
                    "enum": ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]
                },
            ),
            # The schema of the autoscaler has its behaviour.
            advanced=_keys([], horizontalPodAutoscalerConfig=_keys([], behavior={"type": "object"})),
            triggers=_TRIGGERS,
        ),
        _KEDA,
    ),
}


def read(path: Path) -> list[Object]:
    """The documents of a file."""
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one is not None]


def name_of(one: Object) -> str:
    """What people call an object."""
    return f"{one['kind']}/{one['metadata']['name']}"


def check(one: Object) -> None:
    """Raises where the object is not what its API takes, key by key."""
    if one["kind"] in OF_OPERATORS:
        jsonschema.validate(one, OF_OPERATORS[one["kind"]])
        if one["kind"] == "ScaledJob":
            metadata = {"name": one["metadata"]["name"]}
            spec = one["spec"]["jobTargetRef"]
            check({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
        if one["kind"] == "ScaledObject":
            metadata, target = {"name": one["metadata"]["name"]}, one["spec"]["scaleTargetRef"]
            behavior = one["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
            spec = {
                "scaleTargetRef": {"kind": "Deployment", **target},
                "maxReplicas": 1,
                "behavior": behavior,
            }
            check(
                {
                    "apiVersion": "autoscaling/v2",
                    "kind": "HorizontalPodAutoscaler",
                    "metadata": metadata,
                    "spec": spec,
                }
            )
        return
    for version in VERSIONS:
        kubernetes_validate.validate(one, version, strict=True)


def pod_of(one: Object) -> Object | None:
    """The template of the pods that an object makes."""
    spec = one.get("spec", {})
    if one["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    if one["kind"] == "ScaledJob":
        spec = spec["jobTargetRef"]
    return spec.get("template")


def containers(pod: Object) -> Iterator[Object]:
    """All containers of a pod."""
    yield from pod["spec"].get("initContainers", [])
    yield from pod["spec"]["containers"]


def unsafe(pod: Object) -> list[str]:
    """What the standard `restricted` of pod security refuses of a pod."""
    whole = pod["spec"].get("securityContext", {})
    found = []
    if whole.get("runAsNonRoot") is not True or whole.get("runAsUser") in (None, 0):
        found.append("it may run as root")
    if whole.get("seccompProfile") != {"type": "RuntimeDefault"}:
        found.append("no seccomp profile")
    for one in containers(pod):
        own = one.get("securityContext", {})
        if own.get("allowPrivilegeEscalation") is not False:
            found.append(f"{one['name']}: it may get privileges")
        if own.get("capabilities") != {"drop": ["ALL"]}:
            found.append(f"{one['name']}: it has capabilities")
    return found
