"""Pods without a kubelet: what a manifest says of a pod is done by hand, with bubblewrap.

A container gets its command line and variables, a root that cannot be written to, its volumes, the user and
the group of the pod, and no capabilities. Network and process ids are of the host, so ports are replaced
by free ones. Needs root, bwrap and setpriv, and the programs of prs in `PRS_TEST_BIN_DIR`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from cluster import Object

PROGRAMS = Path(os.environ["PRS_TEST_BIN_DIR"]).absolute()
# Where programs and packages of the image are, here and in the container.
INSTALLED = {str(PROGRAMS): "/opt/prs", sys.prefix: "/opt/python", sys.base_prefix: sys.base_prefix}


# What an image has of a system; other files are mounted into /etc.
OF_THE_SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib64"]
OF_THE_SYSTEM += [
    f"/etc/{name}" for name in ("group", "hosts", "ld.so.cache", "nsswitch.conf", "passwd", "ssl")
]


def resource(container: Object, name: str) -> str:
    """What a container asks for, as `resourceFieldRef` gives it: whole cores."""
    kind, what = name.split(".")
    return str(container["resources"][kind][what])


def folders(path: str) -> list[str]:
    """What makes the folders above a path, for everybody to pass."""
    above = [str(folder) for folder in reversed(Path(path).parents) if str(folder) not in ("/", "/dev")]
    return [word for folder in above for word in ("--perms", "0755", "--dir", folder)]


class Pod:
    """A pod of its own folder. `secrets` and `maps` are by name; `ports` replaces ports in the arguments."""

    def __init__(
        self,
        name: str,
        spec: Object,
        folder: Path,
        secrets: dict[str, dict[str, str]],
        maps: dict[str, dict[str, str]],
        ports: dict[str, int],
        replaced: dict[str, str] | None = None,
    ) -> None:
        self.name, self.spec, self.folder = name, spec, folder
        self.secrets, self.maps, self.ports, self.replaced = secrets, maps, ports, replaced or {}
        user = spec["securityContext"]
        self.user, self.group = user["runAsUser"], user["runAsGroup"]
        for volume in spec["volumes"]:
            here = folder / volume["name"]
            here.mkdir(parents=True)
            here.chmod(0o755)
            if "emptyDir" in volume:
                # As the kubelet makes them: of root, and of the pod's group where it has one.
                os.chown(here, 0, user.get("fsGroup", 0))
                here.chmod(0o2777 if "fsGroup" in user else 0o777)
            if "configMap" in volume:
                self._project(here, volume["configMap"])

    def _project(self, here: Path, source: Object) -> None:
        """Puts a ConfigMap there as the kubelet does: files in a folder of their own, and links to them."""
        kept = self.maps[source["name"]]
        files = {one["path"]: kept[one["key"]] for one in source.get("items", [])} or kept
        data = here / "..2026_11_21_12_08_28.1"
        data.mkdir()
        for path, text in files.items():
            (data / path).parent.mkdir(parents=True, exist_ok=True)
            (data / path).write_text(text)
            (here / Path(path).parts[0]).symlink_to(f"..data/{Path(path).parts[0]}")
        (here / "..data").symlink_to(data.name)
        for made in (data, *data.rglob("*")):
            made.chmod(0o755 if made.is_dir() else 0o644)

    def _variables(self, container: Object) -> dict[str, str]:
        found = {"PATH": "/opt/prs:/opt/python/bin:/usr/bin:/bin", "VIRTUAL_ENV": "/opt/python", "HOME": "/"}
        for source in container.get("envFrom", []):
            for key, kept in (("secretRef", self.secrets), ("configMapRef", self.maps)):
                if key in source:
                    found.update(kept[source[key]["name"]])
        for one in container.get("env", []):
            given = one.get("valueFrom", {})
            if "value" in one:
                found[one["name"]] = one["value"]
            elif "secretKeyRef" in given:
                found[one["name"]] = self.secrets[given["secretKeyRef"]["name"]][given["secretKeyRef"]["key"]]
            elif "resourceFieldRef" in given:
                found[one["name"]] = resource(container, given["resourceFieldRef"]["resource"])
            else:
                assert given["fieldRef"]["fieldPath"] == "metadata.name", one
                found[one["name"]] = self.name
        return found

    def command(self, container: Object) -> list[str]:
        """The whole command line of a container, with what is around it."""
        secured = container["securityContext"]
        assert secured["readOnlyRootFilesystem"] and secured["capabilities"] == {"drop": ["ALL"]}
        around = [
            "bwrap",
            "--die-with-parent",
            "--new-session",
            "--clearenv",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]
        for path in OF_THE_SYSTEM:
            if Path(path).is_symlink():
                around += ["--symlink", os.readlink(path), path]
            elif Path(path).exists():
                around += [*folders(path), "--ro-bind", path, path]
        for here, there in INSTALLED.items():
            if not there.startswith("/usr"):
                around += [*folders(there), "--ro-bind", here, there]
        for mount in container.get("volumeMounts", []):
            here = self.folder / mount["name"] / mount.get("subPath", "")
            kind = "--ro-bind" if mount.get("readOnly") else "--bind"
            around += [*folders(mount["mountPath"]), kind, str(here), mount["mountPath"]]
        for name, value in self._variables(container).items():
            around += ["--setenv", name, value]
        around += ["--remount-ro", "/", "--chdir", "/"]
        who = ["setpriv", f"--reuid={self.user}", f"--regid={self.group}", "--clear-groups", "--no-new-privs"]
        who += ["--bounding-set=-all", "--inh-caps=-all", "--"]
        own = [*container["command"], *container.get("args", [])]
        for port, free in self.ports.items():
            own = [
                word.replace(f":{port}", f":{free}") if word.endswith(f":{port}") else word for word in own
            ]
        return [*around, *who, *(self.replaced.get(word, word) for word in own)]

    def prepare(self) -> None:
        """Runs the init containers, each of which must succeed."""
        for container in self.spec.get("initContainers", []):
            done = subprocess.run(self.command(container), capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

    def start(self) -> Container:
        """Starts the one container."""
        self.prepare()
        (container,) = self.spec["containers"]
        return Container(self.command(container), self.folder / f"{self.name}.log")


class Container:
    """A container that runs."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log
        with open(log, "wb") as written:
            self._around = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=written, stderr=written)

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text(errors="replace")

    def runs(self) -> bool:
        """That it has not ended."""
        assert self._around.poll() is None, f"it has ended with {self._around.returncode}:\n{self.said()}"
        return True

    def terminate(self) -> None:
        """SIGTERM to its first process, which has taken the place of what is around it."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        own = self._around.pid
        for child in Path(f"/proc/{own}/task/{own}/children").read_text().split():
            os.kill(int(child), number)

    def wait(self, seconds: float) -> int:
        """Its exit code."""
        return self._around.wait(seconds)

    def kill(self) -> None:
        """Ends it, where it still runs."""
        if self._around.poll() is None:
            # It became another user, and so does not die with its parent any more.
            self._signal(signal.SIGKILL)
            self._around.kill()
        self._around.wait(30)
