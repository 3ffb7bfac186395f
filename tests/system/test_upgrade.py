"""A platform with data of the last release is upgraded under load, in the order of the page."""

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from shared.api.leaderboards import Entry
from shared.version import VERSION
from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import ROOT, Running
from tests.support.releases import install_release, last_release
from tests.support.versions import python_file
from tests.support.waits import until

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(600),
]

PAGE = ROOT / "docs" / "operating" / "upgrades.md"
# The numbered steps of the page, and the service of each that runs here.
ORDER = {"ranker": "ranker", "scheduler": "scheduler", "ingest": "ingest", "Agents": "gpu-agent"}
UP_S_MAX = 60
FREE_S_MAX = 60
LOADED_MIN = 3


class VersionedRunning(Running):
    """A platform whose services are upgraded one by one."""

    module = "tests.support.versions"

    def choose(self, python: Path, *services: str) -> None:
        """Choose the Python of the next start of services."""
        for service in services:
            file = python_file(self.folder, service)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(str(python), encoding="utf-8")

    def replace(self, python: Path, service: str) -> None:
        """Stop a service, which `up` starts again with this Python, and wait until it is well."""
        self.choose(python, service)
        old = self.pid(service)
        assert old is not None
        if service == "gpu-agent":
            self.admin("agents/local/drain")
            until(lambda: not self._is_busy(), FREE_S_MAX)
        os.kill(old, signal.SIGTERM)
        until(lambda: self.pid(service) not in (None, old), UP_S_MAX)
        until(lambda: self.health(service).get("status") == "ok", UP_S_MAX)
        if service == "gpu-agent":
            self.admin("agents/local/release")

    def health(self, service: str) -> dict[str, Any]:
        """What a service says of itself; empty while it does not answer."""
        port = self.state["ports"][f"{service.replace('-', '_')}_ops"]
        try:
            answer: dict[str, Any] = httpx.get(f"http://127.0.0.1:{port}/healthz").json()
        except (httpx.TransportError, ValueError):
            return {}
        return answer

    def python(self, service: str) -> str:
        """The Python that runs a service."""
        command = Path(f"/proc/{self.pid(service)}/cmdline").read_text(encoding="utf-8")
        return command.partition("\0")[0]

    def _is_busy(self) -> bool:
        (agent,) = httpx.get(f"{self.url}/v1/agents").json()["items"]
        return agent["drained"] is None or bool(agent["current_runs"])


class Load:
    """A participant who submits one kernel after the other, whatever is stopped meanwhile."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name
        self.ended: list[dict[str, Any]] = []
        self._is_over = threading.Event()

    def run(self) -> None:
        """Submit and wait for each end until told to stop."""
        with Person(self.url, self.name) as person:
            while not self._is_over.is_set():
                self.ended.append(person.end(person.submit(HONEST)))

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Submit meanwhile."""
        thread = threading.Thread(target=self.run, daemon=True)
        thread.start()
        yield self
        self._is_over.set()
        thread.join(UP_S_MAX)
        assert not thread.is_alive(), "the last submission did not end"

    def wait_for(self, more: int) -> None:
        """Wait until so many more submissions have ended."""
        count = len(self.ended) + more
        until(lambda: len(self.ended) >= count, UP_S_MAX)


@pytest.fixture
def running(servers: None, tmp_path: Path) -> Iterator[VersionedRunning]:  # noqa: ARG001
    running = VersionedRunning(tmp_path / "home")
    try:
        yield running
    finally:
        running.end()


def stated_order() -> list[str]:
    """The services in the order that the page states."""
    steps = re.findall(r"^\d\. \*\*([\w-]+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [ORDER[step.rstrip(".")] for step in steps if step in ORDER]


def test_a_running_platform_is_upgraded_under_load_and_one_service_goes_back(
    running: VersionedRunning, tmp_path: Path
) -> None:
    old, new = install_release(last_release(), tmp_path / "release"), Path(sys.executable)
    order = stated_order()
    assert sorted(order) == sorted(ORDER.values())
    running.choose(old, *order)
    running.up()
    assert {running.python(service) for service in order} == {str(old)}
    add_problem(running.url, ROOT / "problems" / "identity")
    with Person(running.url, "ada") as ada:
        assert ada.end(ada.submit(HONEST, mode="ranked"))["outcome"] == "passed"
        before, audit_before = ada.board(), running.audit("identity", "CPU")
        assert len(before) == 1
        with Load(running.url, "grace").running() as load:
            load.wait_for(LOADED_MIN)
            for service in order:
                running.replace(new, service)
                assert running.python(service) == str(new)
                assert running.health(service)["version"] == VERSION
                load.wait_for(1)
            assert_shown(ada.board(), before)
            assert_sound(running, audit_before)
            running.replace(old, "ingest")
            assert running.python("ingest") == str(old)
            load.wait_for(1)
        assert {end["outcome"] for end in load.ended} == {"passed"}
        numbers = [end["number"] for end in load.ended]
        assert len(set(numbers)) == len(numbers)
        assert_shown(ada.board(), before)
        assert_sound(running, audit_before)


def assert_shown(rows: list[dict[str, Any]], before: list[dict[str, Any]]) -> None:
    """The rows are those that the release showed; fields that it did not have are the defaults."""
    defaults = [msgspec.to_builtins(msgspec.convert(row, Entry)) for row in before]
    assert rows == [new | old for new, old in zip(defaults, before, strict=True)]


def assert_sound(running: VersionedRunning, audit_before: dict[str, Any]) -> None:
    """Derive everything from the log again: nothing differs from what is shown."""
    rebuilt = running.rebuild()
    assert rebuilt["is_equal"], rebuilt
    audit = running.audit("identity", "CPU")
    assert audit["rows"] == audit_before["rows"]
    assert (audit["findings"], audit["differences"]) == ([], [])
