"""A Kubernetes of its own on loopback addresses: etcd, API server, controllers, scheduler, and no real node.

Objects are accepted or refused, become pods and are bound to a node as in any cluster; no container starts,
for there is no kubelet. Needs the programs that ops/kubernetes/install-control-plane builds, in the folder
`PRS_TEST_CONTROL_PLANE`, and openssl.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
TOKEN = "tests-of-the-control-plane"
# Longer than anything here takes on a slow machine, seconds.
PATIENCE = 180


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(what: str, condition: Callable[[], Any]) -> Any:
    """What the condition gives once it gives anything."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.2)
    return value


class Cluster:
    """The programs, and kubectl for their administrator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = Path(os.environ["PRS_TEST_CONTROL_PLANE"]).absolute()
        self.port = free_port()
        self.programs: list[subprocess.Popen[bytes]] = []
        self.kubeconfig = folder / "kubeconfig"
        self._begin()

    def _start(self, program: str, *options: str) -> None:
        with open(self.folder / f"{program}.log", "wb") as log:
            command = [self.bin / program, *options]
            self.programs.append(subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log))

    def _begin(self) -> None:
        clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._start(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
        )
        key = self.folder / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
        self._start(
            "kube-apiserver",
            f"--etcd-servers={clients}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Nobody would take away the taint of a node whose kubelet is not there.
            "--disable-admission-plugins=TaintNodesByCondition",
        )
        server = f"https://127.0.0.1:{self.port}"
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "it",
                    "contexts": [{"name": "it", "context": {"cluster": "it", "user": "admin"}}],
                    "clusters": [
                        {"name": "it", "cluster": {"server": server, "insecure-skip-tls-verify": True}}
                    ],
                    "users": [{"name": "admin", "user": {"token": TOKEN}}],
                }
            )
        )
        wait_for("the API server is ready", lambda: self._alive() and self._is_ready())
        of_admin = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1"]
        self._start(
            "kube-controller-manager",
            *of_admin,
            f"--secure-port={free_port()}",
            f"--service-account-private-key-file={key}",
            "--controllers=*,-node-lifecycle-controller",
        )
        self._start("kube-scheduler", *of_admin, f"--secure-port={free_port()}")

    def _alive(self) -> bool:
        for program in self.programs:
            name = Path(program.args[0]).name  # type: ignore[index]
            log = self.folder / f"{name}.log"
            assert program.poll() is None, f"{name} has ended:\n{log.read_text()[-4000:]}"
        return True

    def _is_ready(self) -> bool:
        untrusted = ssl._create_unverified_context()
        asked = urllib.request.Request(
            f"https://127.0.0.1:{self.port}/readyz", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        try:
            with urllib.request.urlopen(asked, timeout=5, context=untrusted) as answer:
                return answer.status == 200
        except OSError:
            return False

    def end(self) -> None:
        """Ends the programs, the last first."""
        for program in reversed(self.programs):
            program.terminate()
            try:
                program.wait(5)
            except subprocess.TimeoutExpired:
                # The API server waits a minute for those who watch. Nothing of it is kept.
                program.kill()
                program.wait(60)

    def kubectl(
        self, *words: str, given: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """What kubectl says."""
        command = [str(self.bin / "kubectl"), f"--kubeconfig={self.kubeconfig}", *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True)
        assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done

    def get(self, *words: str) -> list[Object]:
        """Objects, as `kubectl get` finds them."""
        found: Object = json.loads(self.kubectl("get", *words, "-o", "json").stdout)
        items: list[Object] = found["items"]
        return items

    def apply(self, *objects: Object) -> subprocess.CompletedProcess[str]:
        """Applies objects; the server refuses fields that it does not know. Warnings are failures."""
        text = yaml.safe_dump_all(objects)
        done = self.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", given=text)
        assert "Warning" not in done.stderr, done.stderr
        return done

    def refused(self, *objects: Object) -> str:
        """What the API says against objects."""
        text = yaml.safe_dump_all(objects)
        words = ("apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-")
        done = self.kubectl(*words, given=text, check=False)
        assert done.returncode != 0, "it takes them"
        return done.stderr

    def add_node(self, name: str) -> None:
        """A node with room for some pods. Nothing runs there."""
        room = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
        labels = {"kubernetes.io/hostname": name}
        self.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        ready = {"type": "Ready", "status": "True", "reason": "Told", "message": "nothing runs here"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        patch = json.dumps({"status": status})
        self.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster for as long as this lasts."""
    with tempfile.TemporaryDirectory(prefix="prs-cluster-") as folder:
        made = Cluster.__new__(Cluster)
        made.programs = []
        try:
            made.__init__(Path(folder))  # type: ignore[misc]
            yield made
        finally:
            made.end()
