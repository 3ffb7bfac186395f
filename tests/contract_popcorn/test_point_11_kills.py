"""Services that die while a submission goes on: the same id ends, and no poll is refused."""

import os
import shutil
import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.contract_popcorn.conftest import token_of
from tests.contract_popcorn.polling import poll_until_done, submit
from tests.contract_popcorn.wire import Wire, cli_id, events
from tests.support.people import add_problem
from tests.support.platform import ROOT, Running

pytestmark = [pytest.mark.long, pytest.mark.server]


@pytest.fixture(scope="module")
def own(platform_to_kill: Running) -> Wire:
    """A participant of the platform that comes back from every kill."""
    return Wire(platform_to_kill.url, cli_id(token_of(platform_to_kill, "survivor")))


# A poll is held for 25 s, in which what was killed comes back.
@pytest.mark.parametrize("service", ["ranker", "scheduler", "gpu-agent"])
def test_point_11_a_killed_service_ends_no_command(
    platform_to_kill: Running, own: Wire, service: str
) -> None:
    number = submit(own, "benchmark")
    pid = platform_to_kill.pid(service)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    submission = poll_until_done(own, number)[-1]
    assert submission["id"] == number
    assert submission["job"]["status"] in ("succeeded", "failed")
    if submission["job"]["status"] == "failed":
        assert "platform failed" in submission["job"]["error"]
    lines = [f"authorization: Bearer {own.credential.partition(': ')[2]}", f"host: {own.host}"]
    history = own.exchange("GET", f"/v1/submissions/{number}/events", lines).body
    *recorded, (last, _) = events(iter([history]))
    submission_ids = [data["id"] for event, data in recorded if event[0].isupper()]
    assert submission_ids == sorted(set(submission_ids)), "nothing is told twice"
    assert (recorded[0][0], last) == ("SubmissionReceived", "end")


def test_point_11_a_killed_door_keeps_what_it_took_in(
    platform_to_kill: Running, own: Wire, tmp_path: Path
) -> None:
    number = submit(own)
    pid = platform_to_kill.pid("ingest")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    platform_is_back(platform_to_kill)
    add_problem(
        platform_to_kill.url,
        shutil.copytree(ROOT / "problems" / "identity", tmp_path / "after-a-kill"),
    )
    assert poll_until_done(own, number)[-1]["job"]["status"] == "succeeded"


def platform_is_back(platform: Running) -> None:
    """Wait until the door answers again."""
    until = time.monotonic() + 60
    while True:
        try:
            if httpx.get(f"{platform.url}/health", timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < until, "ingest does not come back"
        time.sleep(0.1)
