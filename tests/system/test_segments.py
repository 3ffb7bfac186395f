"""A platform with traffic whose stream is truncated: each process starts again, nothing is lost."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ranker.archive.archiver import Sealer
from ranker.archive.postgres import open_archive
from ranker.archive.segments import Segmenter, TruncationReport
from ranker.domain.stored_log import SealInterval
from ranker.service.decisions import Metrics
from shared.nats.connection import api_request, connect
from shared.nats.segmented_log import NatsSegmentedLog
from shared.nats.truncation import KNOWN_S
from shared.signing import load_key
from shared.subjects import SNAPSHOTS
from tests.support.people import HONEST, Person
from tests.support.platform import PATIENT, Running, run_platform
from tests.support.waits import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(240),
]

SEGMENT_EVENTS = 15
KEY = {"Idempotency-Key": "the-first-one-of-ada"}


@pytest.fixture
def running(servers: None, tmp_path: Path) -> Iterator[Running]:  # noqa: ARG001
    yield from run_platform(Running(tmp_path / "home", PATIENT))


async def truncate(running: Running) -> TruncationReport:
    """Seal, export and truncate everything that is over, while the platform runs."""
    environ = running.environ("ranker")
    key = load_key(Path(environ["WARPBOARD_RANKER_SEAL_KEY"]))
    # Ranker truncates by itself, too, so its own user must be allowed to.
    nc = await connect(running.bus_login("ranker"), "truncation")
    log = NatsSegmentedLog(nc)
    try:
        async with open_archive(environ["WARPBOARD_RANKER_POSTGRES_DSN"]) as archive:

            async def is_archived() -> bool:
                return await archive.checkpoint() >= await log.log.last()

            await eventually(is_archived, 30)
            await Sealer(log.log, archive, key, SealInterval(1, 0.0), Metrics()).look()
            await eventually(is_archived, 30)
            segmenter = Segmenter(log, archive, key, SEGMENT_EVENTS)
            assert await segmenter.seal(only_full=False)
            return await segmenter.truncate(0.0, pause_s=KNOWN_S + 1)
    finally:
        await nc.close()


async def forget_snapshots(running: Running) -> None:
    """Let every fold begin at event 1."""
    nc = await connect(running.bus_login(), "test")
    await api_request(nc, f"STREAM.PURGE.{SNAPSHOTS}")
    await nc.close()


def kill(running: Running, name: str) -> None:
    """SIGKILL a process, which then comes back."""
    pid = running.pid(name)
    assert pid is not None
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def send_first(running: Running) -> httpx.Response:
    """Send ada's first request, which always has the same key."""
    with Person(running.url, "ada") as ada:
        data, files = (
            {"problem": "identity", "mode": "test", "gpu": "CPU"},
            {"file": ("k.py", HONEST)},
        )
        return ada.http.post("/v1/submissions", data=data, files=files, headers=KEY)


async def test_a_platform_goes_on_behind_a_truncation(running: Running) -> None:
    first = send_first(running)
    number = int(first.json()["submissions"][0]["number"])
    with Person(running.url, "ada") as ada, Person(running.url, "grace") as grace:
        shown = ada.end(number)
        for person in (ada, grace):
            person.end(person.submit(HONEST, mode="ranked"))
        board = ada.board()
        audit = running.audit("identity", "CPU")
        report = await truncate(running)
        assert report.dropped >= 15
        assert report.messages_after < report.messages_before
        await forget_snapshots(running)
        for names in (("scheduler", "ingest"), ("ranker", "gpu-agent"), ("nats-server",)):
            for name in names:
                kill(running, name)
            assert grace.end(grace.submit(HONEST))["outcome"] == "passed"
        repeated = send_first(running)
        assert repeated.status_code in (200, 202), repeated.text
        assert repeated.json()["submissions"][0]["number"] == number
        assert ada.seen(number) | {"version": 0} == shown | {"version": 0}
        late = ada.http.post(f"/v1/submissions/{number}/cancel", json={"reason": "late"})
        assert late.status_code in (200, 409), late.text
        assert ada.board() == board
    after = running.audit("identity", "CPU")
    assert after["is_clean"], after["findings"]
    assert after["rows"] == audit["rows"]
    assert running.rebuild()["is_equal"]
    assert (await truncate(running)).seq > report.seq
