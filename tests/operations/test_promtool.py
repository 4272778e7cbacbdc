"""What Prometheus says of the alerts and of the dashboard's expressions. Needs `promtool`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import yaml
from test_dashboard import EXPRESSIONS, ROOT

# What Grafana puts in for its variables.
FILLED_IN = {"$__rate_interval": "1m", "$target": "default|gpu"}


def promtool(*words: str, folder: Path) -> None:
    assert shutil.which("promtool"), "promtool is not here: apt-get install prometheus"
    done = subprocess.run(["promtool", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_takes_the_alerts() -> None:
    promtool("check", "rules", "alerts.yml", folder=ROOT / "ops/prometheus")
    promtool("test", "rules", "alerts.test.yml", folder=ROOT / "ops/prometheus")


def test_it_takes_the_configuration_of_the_composed_prometheus() -> None:
    promtool("check", "config", "prometheus.yml", folder=ROOT / "ops/prometheus")


def test_it_takes_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = []
    for at, expression in enumerate(EXPRESSIONS):
        for variable, value in FILLED_IN.items():
            expression = expression.replace(variable, value)
        assert "$" not in expression
        rules.append({"record": f"panel:{at}", "expr": expression})
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", "rules.yml", folder=tmp_path)
