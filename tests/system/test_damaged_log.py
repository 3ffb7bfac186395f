"""A whole platform on a log that lost events, and on a disk that was full."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.damage import (
    fill_disk,
    fill_log,
    find_blocks,
    find_record,
    flip_bit,
    mounted_disk,
)
from tests.support.people import HONEST, Person
from tests.support.platform import PATIENT, Running, run_platform
from tests.support.waits import until
from tests.system.office import Office

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server, pytest.mark.timeout(400)]


DISK_MIB = 256


@pytest.fixture(scope="module")
def running(servers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:  # noqa: ARG001
    """A platform whose log is on a small disk, where one can be mounted."""
    running = Running(tmp_path_factory.mktemp("damaged") / "home", PATIENT)
    with mounted_disk(running.folder / "nats", DISK_MIB):
        yield from run_platform(running)


def is_ill(running: Running, port: str, part: str) -> bool:
    """Whether a service says on its ops port that a part is unhealthy."""
    address = f"http://127.0.0.1:{running.state['ports'][port]}/healthz"
    try:
        return part in httpx.get(address).json().get("parts", {})
    except (OSError, ValueError, httpx.HTTPError):
        return False


def is_archived(running: Running) -> bool:
    """Whether the archive has all of the log."""
    ops = {name: running.state["ports"][f"{name}_ops"] for name in ("ranker", "scheduler")}
    said = {name: httpx.get(f"http://127.0.0.1:{port}/metrics").text for name, port in ops.items()}
    (archived,) = re.findall(r"^warpboard_ranker_archived_seq (\S+)", said["ranker"], re.MULTILINE)
    (last,) = re.findall(r"^warpboard_scheduler_log_events (\S+)", said["scheduler"], re.MULTILINE)
    return float(archived) == float(last)


def fill(running: Running, count: int) -> None:
    """Make the log longer."""
    asyncio.run(fill_log(running.bus_login(), count))


def damage(running: Running, place: float) -> None:
    """Cut the power of nats-server alone, and flip a bit in the second file of its log."""
    assert running.process is not None
    running.process.send_signal(signal.SIGSTOP)
    nats = running.pid("nats-server")
    assert nats is not None
    os.kill(nats, signal.SIGKILL)
    flip_bit(find_blocks(running.folder / "nats")[1], place)
    running.process.send_signal(signal.SIGCONT)


def who_am_i(running: Running, token: dict[str, str]) -> int:
    """How a request with a token ends; 0 while nobody answers."""
    try:
        return httpx.get(f"{running.url}/v1/me", headers=token).status_code
    except httpx.HTTPError:
        return 0


def is_unready(running: Running) -> bool:
    """Whether the platform says that it is not ready; it answers some seconds after its start."""
    try:
        return httpx.get(f"{running.url}/readyz").status_code == 503
    except httpx.HTTPError:
        return False


def test_a_full_disk_heals_when_there_is_room_again(running: Running) -> None:
    disk = running.folder / "nats"
    if not disk.is_mount():
        pytest.skip("NOT RUN: a small disk cannot be mounted here")
    before = running.pid("nats-server")
    ballast = fill_disk(disk)
    until(lambda: is_ill(running, "ingest_ops", "log store"))
    said = httpx.get(f"{running.url}/health")
    assert (said.status_code, "NATS stores nothing" in said.text) == (503, True)
    # Without room a restart would be of no use.
    assert running.pid("nats-server") == before
    ballast.unlink()
    until(lambda: running.pid("nats-server") not in (before, None))
    until(lambda: httpx.get(f"{running.url}/health").status_code == 200)
    with Person(running.url, "ada") as ada:
        assert ada.end(ada.submit(HONEST))["outcome"] == "passed"


def test_a_revoked_token_stays_dead_when_the_log_loses_its_revocation(
    running: Running, tmp_path: Path
) -> None:
    token = running.token("ada", "account")
    assert who_am_i(running, token) == 200
    fill(running, 100)
    tokens = httpx.get(f"{running.url}/v1/tokens", headers=token).json()["items"]
    httpx.delete(f"{running.url}/v1/tokens/{tokens[0]['id']}", headers=token).raise_for_status()
    until(lambda: who_am_i(running, token) == 401)
    fill(running, 60)
    until(lambda: is_archived(running))
    damage(running, 0.05)

    # While all services run on.
    for port in ("ingest_ops", "ranker_ops", "scheduler_ops"):
        until(partial(is_ill, running, port, "log"))
    said = httpx.get(f"{running.url}/health")
    assert (said.status_code, "the log is damaged" in said.text) == (503, True)
    assert httpx.get(f"{running.url}/readyz").status_code == 503
    assert who_am_i(running, token) == 503

    # After a new start of everything, which knows only what the log says.
    running.stop()
    running.launch()
    until(lambda: is_ill(running, "ingest_ops", "log"))
    until(lambda: who_am_i(running, token) == 503)
    office = Office(running, tmp_path)
    scrubbed = office.say("server", "scrub", "--json")
    assert (scrubbed.code, scrubbed.json["missing"]["count"] > 0) == (1, True), scrubbed
    assert scrubbed.json["lost"]["count"] == 0
    running.stop()

    office.do("server", "repair", tmp_path / "repaired.gz", "--operator", "olga")
    running.up()
    assert who_am_i(running, token) == 401
    assert office.do("server", "scrub", "--json").json["is_clean"]
    with Person(running.url, "grace") as grace:
        number = grace.submit(HONEST, mode="ranked")
        assert grace.end(number)["outcome"] == "passed"
    assert running.rebuild()["is_equal"]
    office.do("server", "audit", "identity", "CPU")


def is_event_missing(running: Running, port: str, seq: int) -> bool:
    """Whether a service says on its ops port that this event of the log is damaged."""
    address = f"http://127.0.0.1:{running.state['ports'][port]}/healthz"
    try:
        return f": {seq}; see docs" in httpx.get(address).json().get("parts", {}).get("log", "")
    except (OSError, ValueError, httpx.HTTPError):
        return False


def test_a_bit_that_flips_while_everything_is_stopped_is_reported_until_it_is_repaired(
    running: Running, tmp_path: Path
) -> None:
    token = running.token("hopper", "account")
    until(lambda: is_archived(running))
    running.stop()
    find_record(running.folder / "nats", 6).flip("body")
    for _ in range(2):
        running.launch()
        for port in ("ingest_ops", "ranker_ops", "scheduler_ops"):
            until(partial(is_event_missing, running, port, 6))
        until(lambda: is_unready(running))
        assert who_am_i(running, token) == 503
        running.stop()
    office = Office(running, tmp_path)
    office.do("server", "repair", tmp_path / "repaired.gz", "--operator", "olga")
    running.up()
    assert who_am_i(running, token) == 200
    status = office.do("status", "--json").json["scrub"]
    assert (status["damaged_events"], status["damaged"]) == (0, [])
