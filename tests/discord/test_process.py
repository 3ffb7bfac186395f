"""The simulator as a process of its own, and people who act over HTTP."""

import base64
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from discord_sim.guild import BITS
from discord_sim.settings import LISTEN, LOBBY, ROLES, USERS, SettingsError, load_settings
from tests.discord.bot_process import ROOT

START_S = 30


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """`python -m discord_sim`."""
    arguments = [sys.executable, "-m", "discord_sim"]
    environment = {LOBBY: "31", ROLES: "creator=11,admin=12:manage_guild", USERS: "omar=21:admin"}
    with subprocess.Popen(
        arguments, env=os.environ | environment, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.terminate()
        assert process.wait(START_S) == 0


@pytest.fixture
def bot(process: subprocess.Popen[str], tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the process told of itself, once the small bot is started against it."""
    assert process.stdout is not None
    told: dict[str, Any] = json.loads(process.stdout.readline())
    environment = {
        "BOT_API": told["url"],
        "BOT_GUILD": told["guild"],
        "BOT_TOKEN": "simulated.bot.token",
    }
    with (tmp_path / "log.txt").open("w") as log:
        arguments = [sys.executable, "-m", "tests.discord.bot"]
        env = os.environ | environment
        with subprocess.Popen(arguments, cwd=ROOT, env=env, stdout=log, stderr=log) as bot:
            yield told
            bot.terminate()


def _until_ready(http: httpx.Client) -> dict[str, Any]:
    """What there is, once the bot has said its commands."""
    changes = -1
    for _ in range(100):
        state: dict[str, Any] = http.get("/state").json()
        if state["commands"] and state["is_connected"]:
            return state
        changes = http.get("/changes", params={"after": changes}).json()["changes"]
    raise AssertionError("no bot came")


def test_users_act_over_http(bot: dict[str, Any]) -> None:
    with httpx.Client(base_url=bot["control"], timeout=START_S) as http:
        _until_ready(http)
        ada = f"/people/{http.post('/people', json={'name': 'ada'}).json()['id']}"
        seen = {one["name"]: one["id"] for one in http.get(f"{ada}/channels").json()}
        assert seen["lobby"] == "31"
        where = {"channel": seen["lobby"], "command": "leaderboard submit ranked"}
        typed = {"option": "leaderboard_name", "typed": "mat"}
        assert http.post(f"{ada}/autocomplete", json=where | typed).json()["choices"]
        script = {"name": "k.py", "base64": base64.b64encode(b"x = 1").decode()}
        options = {"script": script, "leaderboard_name": "sort_v2"}
        done = http.post(f"{ada}/slash", json=where | {"options": options}).json()
        assert not done["is_failed"]
        assert done["message"]
        refused = http.post(f"{ada}/slash", json=where)
        assert refused.status_code == 409
        assert "the client requires" in refused.json()["detail"]
        assert http.post(f"{ada}/fly", json={}).status_code == 404
        messages = http.get(f"{ada}/channels/{seen['lobby']}").json()
        assert [one["id"] for one in messages] == [done["message"]]
        state = http.get("/state").json()
        assert not state["violations"]
        assert state["members"]["21"] == ["12"]
        assert int(state["may"]["21"]) & BITS["manage_guild"]
        owner = {"role": state["roles"][1]["id"], "is_held": True}
        assert http.post(f"{ada}/roles", json=owner).json() == [owner["role"]]
        stranger = {"Sec-Fetch-Site": "cross-site"}
        assert http.get("/state", headers=stranger).status_code == 403
        page = http.get("/").text
        for name in re.findall(r"(?:src|href)=.(page[\w.]+)", page):
            assert http.get(f"/{name}").status_code == 200


def test_an_address_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "discord_sim"],
            env=os.environ | {LISTEN: address},
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
    assert done.returncode == 2
    assert address.rpartition(":")[2] in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (LISTEN, "here"),
        (LOBBY, "lobby"),
        (ROLES, "admin"),
        (ROLES, "admin=12:everything"),
        (USERS, "ada=x"),
        (USERS, "ada=12:unknown"),
    ],
)
def test_an_invalid_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=rf"{name} (is|has) '{value}'"):
        load_settings({name: value})
    with pytest.raises(SettingsError, match="an existing file"):
        load_settings({"WARPBOARD_DISCORD_OPENAPI": "/nowhere.json"})
