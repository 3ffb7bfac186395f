"""A real Alertmanager with our sample configuration, which tells a receiver of the tests."""

import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.observability.prometheus import DEPLOY
from tests.support.receiver import Receiver
from tests.support.waits import free_port, until

SAMPLE = DEPLOY / "prometheus" / "alertmanager.yml"
READY_S_MAX = 20
STOP_S_MAX = 10
# The waits by which it groups alerts, so that a test need not be as patient.
QUICK = {"group_wait": "100ms", "group_interval": "200ms"}


def find(*names: str) -> str:
    """The path of the first program of these names; skips if there is none."""
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip(f"NOT RUN: no {names[0]} here; apt-get install prometheus-alertmanager")
    return path


class Alertmanager:
    """A process that sends what our sample routes to `receiver`."""

    def __init__(self, program: str, folder: Path, receiver: Receiver) -> None:
        folder.mkdir()
        self.receiver = receiver
        self.log = folder / "log"
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{free_port()}", timeout=30)
        (folder / "alertmanager.yml").write_text(_configuration(receiver.url))
        self._command = [
            program,
            f"--config.file={folder}/alertmanager.yml",
            f"--storage.path={folder}/data",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",
        ]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Its host and port."""
        return f"{self.http.base_url.host}:{self.http.base_url.port}"

    def start(self) -> "Alertmanager":
        """Start it and wait until it answers."""
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + READY_S_MAX
        while not self._is_ready():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
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

    def told(self, path: str) -> set[str]:
        """The alerts that a webhook was told of."""
        return {
            alert["labels"]["alertname"]
            for request in self.receiver.at(path)
            for alert in request.json["alerts"]
        }

    def inhibited(self) -> set[str]:
        """The alerts that another one explains."""
        alerts: list[dict[str, Any]] = self.http.get("/api/v2/alerts").json()
        return {alert["labels"]["alertname"] for alert in alerts if alert["status"]["inhibitedBy"]}

    def until_told(self, path: str, *names: str, within_s: float = 30) -> None:
        """Wait until a webhook was told of these alerts. Raises AssertionError on a timeout."""
        until(lambda: set(names) <= self.told(path), within_s)


def _configuration(url: str) -> str:
    """Our sample with the receiver's addresses, and less patient."""
    ours = yaml.safe_load(SAMPLE.read_text())
    for route in (ours["route"], *ours["route"]["routes"]):
        route.update(QUICK)
    webhooks = {item["name"]: item for item in ours["receivers"]}
    webhooks["watchdog"]["webhook_configs"][0]["url"] = f"{url}/watchdog"
    webhooks["page"]["webhook_configs"][0]["url"] = f"{url}/pager"
    webhooks["discord"]["discord_configs"][0]["webhook_url"] = f"{url}/discord"
    return yaml.safe_dump(ours)
