"""The sample for Alertmanager: it is valid, routes by severity, and inhibits consequences."""

import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.alert_rules import alert_rules

from tests.observability.alertmanager import SAMPLE, Alertmanager, find
from tests.observability.prometheus import JOBS, Prometheus
from tests.support.receiver import run_receiver
from tests.support.waits import until

# What a scheduler shows while NATS is down, and besides, an agent in quarantine.
DEAD_BUS = """\
warpboard_scheduler_bus_up 0
warpboard_scheduler_unhealthy_parts 1
warpboard_scheduler_overdue_submissions 1
warpboard_scheduler_agents{state="quarantined"} 1
"""


def test_amtool_finds_nothing_wrong() -> None:
    command = [find("amtool"), "check-config", str(SAMPLE)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "6 inhibit rules" in checked.stdout


def test_it_names_alerts_that_exist() -> None:
    rules = yaml.safe_load(SAMPLE.read_text())["inhibit_rules"]
    named = {
        name
        for rule in rules
        for matcher in (*rule["source_matchers"], *rule["target_matchers"])
        for name in re.findall(r'alertname =~? "?([A-Za-z|]+)', matcher)
    }
    names = {part for name in named for part in name.split("|")}
    assert names - set(alert_rules()) == set()


class Metrics(BaseHTTPRequestHandler):
    """Answers /metrics with what a service shows while the bus is down."""

    def do_GET(self) -> None:
        """Answer."""
        body = DEAD_BUS.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""


@pytest.fixture
def scheduler() -> Iterator[str]:
    """The address of a scheduler's metrics while the bus is down."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.mark.long
@pytest.mark.usefixtures("has_prometheus")
def test_a_dead_bus_is_told_once_and_silences_its_consequences(
    scheduler: str, tmp_path: Path
) -> None:
    program = find("prometheus-alertmanager", "alertmanager")
    with run_receiver() as receiver:

        def posts() -> str:
            return "\n".join(request.body.decode() for request in receiver.at("/discord"))

        manager = Alertmanager(program, tmp_path / "alertmanager", receiver)
        # Only this service exists, so no others are missed.
        targets = dict.fromkeys(JOBS, scheduler)
        server = Prometheus(tmp_path / "prometheus", targets, manager.address)
        try:
            manager.start()
            server.start()
            server.until_firing(
                ("BusDown", ""),
                ("ServiceAiling", "scheduler"),
                ("SubmissionsOverdue", ""),
                ("AgentQuarantined", ""),
            )
            manager.until_told("/pager", "BusDown")
            manager.until_told("/watchdog", "Watchdog")
            until(lambda: {"ServiceAiling", "SubmissionsOverdue"} <= manager.inhibited(), 20)
            page, *_ = [
                alert
                for post in receiver.at("/pager")
                for alert in post.json["alerts"]
                if alert["labels"]["alertname"] == "BusDown"
            ]
            guide = "http://127.0.0.1:8000/guide/docs/operating"
            assert page["annotations"]["runbook_url"] == f"{guide}/bus-down"
            # What the bus does not explain is told; on Discord as a message with a link.
            until(lambda: "AgentQuarantined" in posts(), 30)
            assert (
                f"1 agents are in quarantine ([what to do]({guide}/agent-quarantined))" in posts()
            )
            assert "AgentQuarantined" not in manager.told("/pager")
        finally:
            server.stop()
            manager.stop()
