"""`warpboard up --discord-sim`: the bot for somebody who has no account, in a browser."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.errors import Failed
from shared.servers import nats, postgresql
from tests.support.people import add_problem
from tests.support.platform import QUICK, ROOT, UP_S_MAX, Running

pytestmark = [pytest.mark.platform, pytest.mark.server, pytest.mark.long, pytest.mark.timeout(900)]

# A real bot's settings that lie about must not reach the simulated one.
REAL = {"WARPBOARD_DISCORD_EDGE_CHANNELS": "1,2", "WARPBOARD_DISCORD_EDGE_TOKEN": "real"}
WAITS_MAX = 200


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A platform with a simulated Discord."""
    try:
        nats.find_binary()
        postgresql.find_binaries()
    except Failed as failed:
        pytest.skip(str(failed))
    found = Running(tmp_path / "home", QUICK | REAL, "--discord-sim")
    try:
        yield found.up()
    finally:
        if found.process is not None and found.process.poll() is None:
            found.stop()


def _until(http: httpx.Client, path: str, is_there: Any) -> Any:
    """What a read says once it is so; between two reads, something changed there."""
    seen, said = -1, None
    for _ in range(WAITS_MAX):
        said = http.get(path).json()
        if is_there(said):
            return said
        seen = http.get("/sim/changes", params={"after": seen}).json()["changes"]
    raise AssertionError(f"{path} is not so: {said}")


def _offered(http: httpx.Client, person: str, where: dict[str, Any]) -> None:
    """Wait until the bot has heard of a leaderboard."""
    until = time.monotonic() + UP_S_MAX
    command = {"command": "leaderboard show", "option": "leaderboard_name", "typed": "ide"}
    while not http.post(f"{person}/autocomplete", json=where | command).json()["choices"]:
        assert time.monotonic() < until, "the bot knows of no leaderboard"
        time.sleep(0.05)


def test_the_bot_works_without_an_account_and_ctrl_c_stops_everything(running: Running) -> None:
    rows = {row["name"]: row["address"] for row in running.state["processes"]}
    add_problem(running.url, ROOT / "problems" / "identity")
    page = rows["discord-sim"]
    with httpx.Client(base_url=page.removesuffix("/sim/"), timeout=60) as http:
        assert "Simulated Discord" in http.get("/sim/").text
        _until(http, "/sim/state", lambda said: said["commands"] and said["is_connected"])
        ada = f"/sim/people/{http.post('/sim/people', json={'name': 'ada'}).json()['id']}"
        channels = {one["name"]: one["id"] for one in http.get(f"{ada}/channels").json()}
        where = {"channel": channels["lobby"], "command": "leaderboard list"}
        _offered(http, ada, where)
        done = http.post(f"{ada}/slash", json=where | {"options": {}}).json()
        assert not done["is_failed"]
        said = _until(
            http,
            f"{ada}/channels/{channels['lobby']}",
            lambda said: said and said[-1]["embeds"],
        )
        assert "identity" in said[-1]["embeds"][0]["description"]
        state = http.get("/sim/state").json()
        assert state["violations"] == []
        assert state["own_faults"] == []
    assert running.stop(signal.SIGINT) == 130
    assert not running.left()
