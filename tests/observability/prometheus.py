"""A real Prometheus for a platform, with our configuration and alerts, only faster."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import promql_parser
import yaml
from docs.dashboard_panels import DASHBOARDS
from docs.dashboards import FOLDER

from tests.support.waits import free_port

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
JOBS = ("ingest", "ranker", "scheduler", "gpu-agent", "discord-edge", "launcher")
# A host's own exporter, which is no part of the platform.
NODE = "node"
READY_S_MAX = 20
STOP_S_MAX = 10
# So that a test need not wait for what is patient in earnest.
QUICK = {"scrape_interval": "1s", "scrape_timeout": "900ms", "evaluation_interval": "500ms"}


class Drawn(NamedTuple):
    """One query of a panel; `empty` says when it has no series."""

    dashboard: str
    title: str
    expr: str
    empty: str


def panels() -> list[Drawn]:
    """All panels' queries as they were generated, with Grafana's interval filled in."""
    return [
        Drawn(
            dashboard.name,
            panel["title"],
            target["expr"].replace("$__rate_interval", "30s"),
            spec.empty,
        )
        for dashboard in DASHBOARDS
        for spec, panel in zip(dashboard.panels, panel_files(dashboard.name), strict=True)
        for target in panel["targets"]
    ]


def panel_files(name: str) -> list[dict[str, Any]]:
    """The panels of a dashboard's file without its rows."""
    panels_: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())["panels"]
    return [panel for panel in panels_ if panel["type"] != "row"]


def selectors(expr: str) -> set[str]:
    """What selects every metric that an expression names, whatever its labels.

    >>> sorted(selectors('max(warpboard_ranker_parked_events) > 0 and up{job="x"} == 1'))
    ['up', 'warpboard_ranker_parked_events']
    """
    names = set()

    def visit(node: promql_parser.Expr) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            patterns = [m.value for m in node.matchers.matchers if m.name == "__name__"]
            names.add(node.name or f'{{__name__=~"{patterns[0]}"}}')
        return True

    promql_parser.walk(promql_parser.parse(expr), visit)
    return names


class Prometheus:
    """A process that scrapes these addresses under their job names, and tells an Alertmanager."""

    def __init__(self, folder: Path, targets: Mapping[str, str], alertmanager: str = "") -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{free_port()}", timeout=30)
        folder.mkdir()
        (folder / "prometheus.yml").write_text(_configuration(targets, alertmanager))
        (folder / "alerts.yml").write_text(_impatient())

    def start(self) -> "Prometheus":
        """Start it and wait until it answers."""
        program = shutil.which("prometheus")
        assert program is not None, "ask for it before"
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    program,
                    f"--config.file={self.folder}/prometheus.yml",
                    f"--storage.tsdb.path={self.folder}/data",
                    f"--web.listen-address={self.http.base_url.host}:{self.http.base_url.port}",
                    "--rules.alert.resend-delay=1s",
                    "--log.level=warn",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + READY_S_MAX
        while not self._is_ready():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        """Stop it."""
        self.http.close()
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(STOP_S_MAX)

    def _is_ready(self) -> bool:
        try:
            return self.http.get("/-/ready").is_success
        except httpx.TransportError:
            return False

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The current result of an expression; raises if it is invalid."""
        answer = self.http.post("/api/v1/query", data={"query": expr})
        assert answer.is_success, f"{expr}: {answer.text}"
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result

    def names(self) -> list[str]:
        """All metrics that were ever scraped."""
        values: list[str] = self.http.get("/api/v1/label/__name__/values").json()["data"]
        return values

    def firing(self) -> set[tuple[str, str]]:
        """The firing alerts, each with its job if it has one."""
        values = self.http.get("/api/v1/alerts").json()["data"]["alerts"]
        return {
            (item["labels"]["alertname"], item["labels"].get("job", ""))
            for item in values
            if item["state"] == "firing"
        }

    def until_firing(self, *expected: tuple[str, str], within_s: float = 25) -> None:
        """Wait until these alerts fire. Raises AssertionError on a timeout."""
        self._until(lambda values: set(expected) <= values, f"{expected}", within_s)

    def until_only(self, *expected: tuple[str, str], within_s: float = 25) -> None:
        """Wait until these alerts and no others fire. Raises AssertionError on a timeout."""
        self._until(lambda values: set(expected) == values, f"{expected} alone", within_s)

    def _until(
        self, is_so: Callable[[set[tuple[str, str]]], bool], condition: str, within_s: float
    ) -> None:
        until = time.monotonic() + within_s
        while not is_so(values := self.firing()):
            assert time.monotonic() < until, f"{condition}: not within {within_s} s, but {values}"
            time.sleep(0.2)


def _configuration(targets: Mapping[str, str], alertmanager: str) -> str:
    """Our configuration with other addresses and shorter intervals, but the same job names."""
    ours = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    ours["global"] |= QUICK
    ours["scrape_configs"] = [job for job in ours["scrape_configs"] if job["job_name"] in targets]
    for job in ours["scrape_configs"]:
        job["static_configs"] = [{"targets": [targets[job["job_name"]]]}]
    [manager] = ours["alerting"]["alertmanagers"]
    manager["static_configs"] = [{"targets": [alertmanager] if alertmanager else []}]
    return yaml.safe_dump(ours)


def _impatient() -> str:
    """Our alerts, the critical ones without their delay; a busy machine may be slow."""
    ours = yaml.safe_load(ALERTS.read_text())
    for rule in _rules(ours):
        if rule["labels"]["severity"] == "critical":
            rule.pop("for", None)
    return yaml.safe_dump(ours)


def _rules(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for group in document["groups"]:
        yield from group["rules"]
