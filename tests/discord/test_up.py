"""`warpboard up --discord-sim`: the bot for somebody who has no account, in a browser."""

import re

import httpx
import pytest

from tests.discord.channel_users import message_text, zip_problem
from tests.discord.page_users import PageUser, read_until, upload
from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import ROOT, Running

pytestmark = [pytest.mark.platform, pytest.mark.server, pytest.mark.long, pytest.mark.timeout(900)]


def _submit_to_the_stand_ins(user: PageUser, running: Running) -> None:
    """Submit with both commands of the public documents; both end ranked, on agents here."""
    kernel = upload("kernel.py", HONEST.encode())
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
    uploads = {name: upload(f"{name}.zip", data) for name, data in files.items()}
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
        state = read_until(
            http, "/sim/state", lambda said: said["commands"] and said["is_connected"]
        )
        ids = {one["username"]: one["id"] for one in state["people"]}
        channels = http.get(f"/sim/people/{ids['ada']}/channels").json()
        [lobby] = [one["id"] for one in channels if one["name"] == "lobby"]
        ada, cora, mona, omar = (
            PageUser(http, ids[name], lobby) for name in ("ada", "cora", "mona", "omar")
        )
        path = f"/sim/people/{ada.id}/channels/{lobby}"
        [greeting] = read_until(http, path, lambda messages: messages)
        assert "`/leaderboard submit test`" in greeting["content"]
        ada.wait_until_offered("identity")
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
