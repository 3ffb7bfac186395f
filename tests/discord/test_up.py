"""`warpboard up --discord-sim`: the bot for somebody who has no account, in a browser."""

import base64
import re
import time
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.discord.channel_users import message_text, zip_problem
from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import ROOT, UP_S_MAX, Running

pytestmark = [pytest.mark.platform, pytest.mark.server, pytest.mark.long, pytest.mark.timeout(900)]

WAITS_MAX = 200


def _until(http: httpx.Client, path: str, is_there: Any) -> Any:
    """What a read says once it is so; between two reads, something changed there."""
    seen, said = -1, None
    for _ in range(WAITS_MAX):
        said = http.get(path).json()
        if is_there(said):
            return said
        seen = http.get("/sim/changes", params={"after": seen}).json()["changes"]
    raise AssertionError(f"{path} is not so: {said}")


@dataclass(frozen=True)
class PageUser:
    """A user of the page, in one channel."""

    http: httpx.Client
    id: str
    channel: str

    def send(self, action: str, **fields: Any) -> httpx.Response:
        """Act as the page does."""
        body = {"channel": self.channel, **fields}
        return self.http.post(f"/sim/people/{self.id}/{action}", json=body)

    def use_command(self, command: str, expected: str, **options: Any) -> Any:
        """Use a command, and return its answer once it contains a text."""
        done = self.send("slash", command=command, options=options).json()
        return self.wait_for(done["message"], expected)

    def wait_for(self, message_id: str, expected: str) -> Any:
        """Return a message once it contains a text."""

        def shown(messages: Any) -> Any:
            return [
                it for it in messages if it["id"] == message_id and expected in message_text(it)
            ]

        path = f"/sim/people/{self.id}/channels/{self.channel}"
        return shown(_until(self.http, path, shown))[0]


def _offered(user: PageUser) -> None:
    """Wait until the bot has heard of a leaderboard."""
    until = time.monotonic() + UP_S_MAX
    command = {"command": "leaderboard show", "option": "leaderboard_name", "typed": "ide"}
    while not user.send("autocomplete", **command).json()["choices"]:
        assert time.monotonic() < until, "the bot knows of no leaderboard"
        time.sleep(0.05)


def _submit_to_the_stand_ins(user: PageUser, running: Running) -> None:
    """Submit with both commands of the public documents; both end ranked, on agents here."""
    kernel = {"name": "kernel.py", "base64": base64.b64encode(HONEST.encode()).decode()}
    board = {"leaderboard_name": "identity", "gpu": "CPU"}
    for runner in ("modal", "github"):
        message = user.use_command(f"leaderboard submit {runner}", "#", script=kernel, **board)
        number = int(re.findall(r"#(\d+)", message_text(message))[0])
        with Person(running.url, "ada", running.operator) as reader:
            submission = reader.end(number)
        assert (submission["verdict"], submission["agent"]) == ("passed", f"{runner}-stand-in")
        assert submission["ranking"]["status"] == "ranked"


def _publish(author: PageUser) -> None:
    """Publish a problem by its author's form, menu and button."""
    zipped, report = zip_problem()
    files = {"reference_code": zipped.data, "report": report.encode()}
    uploads = {
        name: {"name": f"{name}.zip", "base64": base64.b64encode(data).decode()}
        for name, data in files.items()
    }
    named = {"leaderboard_name": "copied", "deadline": "2099-01-02"}
    message = author.use_command("leaderboard create", "Which GPU types", **named, **uploads)
    [[menu]] = [row["components"] for row in message["components"]]
    where = {"message": message["id"], "custom_id": menu["custom_id"]}
    author.send("select", **where, values=["CPU"])
    message = author.wait_for(message["id"], "Publish this?")
    [[publish, _]] = [row["components"] for row in message["components"]]
    author.send("click", message=message["id"], custom_id=publish["custom_id"])
    author.wait_for(message["id"], "version 1 published")


def test_the_bot_works_without_an_account(simulated_platform: Running) -> None:
    running = simulated_platform
    rows = {row["name"]: row["address"] for row in running.state["processes"]}
    add_problem(running.url, ROOT / "problems" / "identity")
    page = rows["discord-sim"]
    with httpx.Client(base_url=page.removesuffix("/sim/"), timeout=60) as http:
        assert "Simulated Discord" in http.get("/sim/").text
        state = _until(http, "/sim/state", lambda said: said["commands"] and said["is_connected"])
        ids = {one["username"]: one["id"] for one in state["people"]}
        channels = http.get(f"/sim/people/{ids['ada']}/channels").json()
        [lobby] = [one["id"] for one in channels if one["name"] == "lobby"]
        ada, cora, mona, omar = (
            PageUser(http, ids[name], lobby) for name in ("ada", "cora", "mona", "omar")
        )
        path = f"/sim/people/{ada.id}/channels/{lobby}"
        [greeting] = _until(http, path, lambda messages: messages)
        assert "`/leaderboard submit test`" in greeting["content"]
        _offered(ada)
        ada.use_command("leaderboard list", "identity")
        # Each role has its commands, on the server and on the platform.
        for user in (ada, cora):
            refused = user.send("slash", command="admin pages")
            assert "hidden from this user" in refused.json()["detail"]
        board = {"leaderboard_name": "identity", "value": "none", "reason": "a test"}
        mona.use_command("admin deadline", "role_missing", **board)
        for user in (mona, omar):
            user.use_command("admin pages", f"<{running.url}/admin/appeals>: decide appeals")
        omar.use_command("admin deadline", "not changed", **board)
        _publish(cora)
        _submit_to_the_stand_ins(ada, running)
        state = http.get("/sim/state").json()
        assert state["violations"] == []
        assert state["own_faults"] == []
