"""What admins do about leaderboards on Discord, by the real bot before the real platform."""

import asyncio
import io
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet  # type: ignore[import-untyped]
import pytest

from discord_edge.bot.groups import groups
from discord_sim.cdn import Blob
from discord_sim.simulator import Simulator
from shared.testing import eventually
from tests.discord.desks import WHY, Desk, begun, granted, kept, problem, text_of
from tests.discord.platform import (
    END_S,
    KERNEL,
    RANKED,
    Whole,
    known,
    thread_of,
)
from tests.support.repository import REPOSITORY, made_repository

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]

BOARD = {"leaderboard_name": "identity"}


def names(data: bytes) -> Blob:
    """A file with ids and names."""
    return Blob("names.json", "application/json", data)


async def asked(desk: Desk, path: str, **given: Any) -> tuple[str, list[bytes]]:
    """What a command answers, and the files of its answer."""
    message = await (await desk.person.slash(desk.channel, path, **given)).answered()
    return text_of(message), [desk.whole.sim.cdn.data(one) for one in message["attachments"]]


async def test_who_is_no_admin_does_none_of_it(whole: Whole, town: Simulator) -> None:
    # Shown the commands as who manages the server is, and a moderator in both places.
    mod = Desk(whole, town.person("max", whole.roles["moderator"]), await town.add_channel("no"))
    refused = "Not done"
    assert refused in await mod.ask("moderate hold", submission=1, rule="r", **WHY)
    await granted(whole, "max", "moderator")
    for path, given in (
        ("admin rate-limit", {**BOARD, "value": "ranked=1/day", **WHY}),
        ("admin invites", {**BOARD, "count": 1, **WHY}),
        ("admin export", BOARD),
        ("admin update-problems", {"repository_name": REPOSITORY, "dry_run": False}),
        ("admin create-local", {"directory": "identity"}),
        ("admin verify-task", BOARD),
        ("admin set-forum-ids", {"dry_run": False}),
        ("admin get-user-names", {}),
        ("admin update-user-names", {"attachment": names(b"{}"), **WHY}),
    ):
        assert "role_missing" in await mod.ask(path, **given), path


@pytest.mark.usefixtures("town")
async def test_an_admin_says_how_much_is_sent(olga: Desk) -> None:
    person = olga.person.id
    for given, expected in (
        ({"value": "ranked=900/day"}, "say in `reason`"),
        ({"value": "ranked=often", **WHY}, "is no quota"),
        ({"value": "ranked=900/day", **WHY}, "ranked=900/day"),
        ({}, "ranked=900/day"),
        ({"value": "ranked=none", **WHY}, "→ ranked=none"),
        ({"value": "often", "user": person, **WHY}, "is no quota"),
        ({"value": "test=900/hour", "user": person, **WHY}, "**olga** alone"),
        ({"value": "test=900/hour", "participant": "no-such-one", **WHY}, "Not done"),
        ({"value": "test=1/hour", "participant": "a", "user": person, **WHY}, "say one of"),
    ):
        said = await olga.ask("admin rate-limit", **BOARD, **given)
        assert expected in said.replace("\\", ""), (given, said)
    assert "Not done" in await olga.ask("admin rate-limit", leaderboard_name="nothing")
    await kept(olga.whole, "QuotaLimitSet")


async def test_a_folder_to_develop_on_is_closed_and_entered_by_invite(
    whole: Whole, town: Simulator, olga: Desk
) -> None:
    path = "admin create-local"
    [found] = await olga.person.autocomplete(olga.channel, path, "directory", directory="identi")
    assert "bad_directory" in await olga.ask(path, directory="../tests")
    said = await olga.ask(path, directory=found["value"], gpu="CPU", closed=True)
    assert "**identity-dev** version 1 published" in said.replace("\\", "")
    closed = {"leaderboard_name": "identity-dev"}
    # What not everybody may see is offered to who runs it, and to nobody else.
    typed = {"leaderboard_name": "identity-d"}
    for path, offered in (("admin invites", ["identity-dev"]), ("leaderboard task", [])):
        shown = await olga.person.autocomplete(olga.channel, path, "leaderboard_name", **typed)
        assert [one["value"] for one in shown] == offered
    assert "has no invites" in await olga.ask("admin invites", **closed)
    assert "say in `reason`" in await olga.ask("admin invites", **closed, count=2)
    assert "is over" in await olga.ask(
        "admin invites", **closed, count=2, until="2020-01-01", **WHY
    )
    said = await olga.ask("admin invites", **closed, count=2, until="2099-01-01", **WHY)
    used, free = (line.strip("`") for line in said.splitlines()[1:])
    ivy = Desk(whole, town.person("ivy"), await town.add_channel("invited"))
    assert "Not done" in await ivy.ask("leaderboard task", **closed)
    assert "identity-dev" in await ivy.ask("leaderboard join", code=used)
    assert "Copy a vector" in await ivy.ask("leaderboard task", **closed)
    said = await olga.ask("admin invites", **closed)
    assert "used by ivy" in said
    assert f"`{free}` · free · good until 2099" in said
    twice = {"count": 1, "revoke": used, **WHY}
    assert "say one of" in await olga.ask("admin invites", **closed, **twice)
    assert "no such invite" in await olga.ask("admin invites", **BOARD, revoke=used, **WHY)
    assert "member no longer" in await olga.ask("admin invites", **closed, revoke=used, **WHY)
    assert "Not done" in await ivy.ask("leaderboard task", **closed)
    await kept(whole, "InviteIssued", "InviteRevoked")


async def test_what_is_for_developing_is_there_where_one_develops() -> None:
    def names(*, has_local: bool) -> set[str]:
        found = {one.name: one for one in groups({"admin"}, has_local=has_local)}
        return {one.name for one in found["admin"].commands}

    assert names(has_local=True) - names(has_local=False) == {"create-local"}


async def test_a_leaderboard_is_exported_and_explained(
    whole: Whole, town: Simulator, olga: Desk
) -> None:
    ned, channel = town.person("ned"), await town.add_channel("exported")
    await known(ned, channel)
    await ned.slash(channel, RANKED, script=KERNEL, gpu="CPU", **BOARD)
    room = await thread_of(town, ned, channel)
    [thread] = [one for one in ned.threads(channel) if one["id"] == room]
    number = int(thread["name"].split()[0].removeprefix("#"))

    async def exported() -> Any:
        said, [data] = await asked(olga, "admin export", **BOARD, filename="all.parquet")
        assert "for you alone" in said
        table = pyarrow.parquet.read_table(io.BytesIO(data))
        return next((row for row in table.to_pylist() if row["submission_id"] == number), None)

    # What is read, and the archive below, are a moment behind the log.
    row = await eventually(exported, END_S)
    assert row["code"].encode() == KERNEL.data
    assert "private_only" in await olga.ask("admin export", **BOARD, private=False)
    assert "no leaderboard" in await olga.ask("admin export", leaderboard_name="nothing")
    assert "file's name" in await olga.ask("admin export", **BOARD, filename="../x")

    async def explained(count: int, expected: str, **given: Any) -> str:
        said, files = await asked(olga, "moderate audit", **given)
        told = said + b"".join(files).decode()
        return told if told.count(expected) >= count else ""

    told = await eventually(lambda: explained(1, "SubmissionReceived", submission=number), END_S)
    for expected in (f"**#{number}** identity · CPU", "by account:"):
        assert expected in told, told
    changes = ("closed", "public")
    for value in changes:
        await olga.ask("admin visibility", **BOARD, value=value, reason="to be explained")

    # Other tests may have changed the leaderboard before, so these changes are waited for.
    told = await eventually(lambda: explained(len(changes), "to be explained", **BOARD), END_S)
    assert all(f"to be explained (visibility {change})" in told for change in changes), told
    for given in ({}, {"submission": number, **BOARD}):
        assert "say one of" in await olga.ask("moderate audit", **given)
    assert "Not done" in await olga.ask("moderate audit", submission=10**9)
    await kept(whole, "OperatorActed")


def changed_repository(folder: Path, statement: str) -> None:
    """Another version of what the repository holds."""
    if not folder.exists():
        made_repository(folder)
    (folder / "problems" / "good" / "copy" / "statement.md").write_text(f"Copy it: {statement}.\n")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "commit", "-qam", "Say less."], check=True, timeout=60)


def letters(desk: Desk) -> list[str]:
    """What somebody was told by letter of their errands."""
    said = [one["content"] for one in desk.person.letters()]
    return [one for one in said if "update-problems" in one]


async def questioned(desk: Desk, path: str, **given: Any) -> Any:
    """The message in which a command asks whether to publish."""
    message = await (await desk.person.slash(desk.channel, path, **given)).answered()
    await desk.whole.sim.record.until(
        lambda: "Publish this?" in text_of(message), f"a question in {text_of(message)}", END_S
    )
    return message


@pytest.mark.usefixtures("town")
async def test_a_repository_is_shown_before_it_is_published(whole: Whole, olga: Desk) -> None:
    await asyncio.to_thread(made_repository, whole.running.folder.parent / "repository")
    path, named = "admin update-problems", {"repository_name": REPOSITORY}
    assert "unknown_repository" in await olga.ask(path, repository_name="some/body")
    assert "say in `problem_set`" in await olga.ask(path, **named, force=True)
    said = (await olga.ask(path, **named)).replace("\\", "")
    assert "created: from-a-set" in said
    assert "error: not-there" in said
    assert "skipped: held-back (another problem of bad.yaml has an error)" in said
    assert "Nothing was published" in said
    for label, expected in (("Discard", "Discarded"), ("Apply", "Published.")):
        message = await questioned(olga, path, **named, problem_set="good", dry_run=False)
        await olga.press(message, label, expected)
    said = await olga.ask(path, **named, problem_set="good", dry_run=False)
    assert "no changes" in said
    assert "Nothing was published" in said
    await kept(whole, "OperatorActed")


@pytest.mark.parametrize("how", ["the bot is killed", "the answer is over"])
async def test_what_takes_long_is_published_all_the_same_and_its_end_told(
    whole: Whole, town: Simulator, olga: Desk, how: str
) -> None:
    changed_repository(whole.running.folder.parent / "repository", how)
    path, named = "admin update-problems", {"repository_name": REPOSITORY, "problem_set": "good"}
    message = await questioned(olga, path, **named, dry_run=False)
    before, ingest = len(letters(olga)), whole.running.pid("ingest")
    assert ingest is not None
    os.kill(ingest, signal.SIGSTOP)
    try:
        await olga.press(message, "Apply", "Publishing ada/kernels: 0 of 1 published")
        if how == "the bot is killed":
            await whole.kill()
        town.clock.turn(16 * 60)
    finally:
        # What comes back knows nothing of who had asked.
        os.kill(ingest, signal.SIGKILL)
    if how == "the bot is killed":
        await whole.start()
    await town.record.until(lambda: len(letters(olga)) > before, "a letter", END_S)
    [letter] = letters(olga)[before:]
    assert ": from-a-set" in letter.replace("\\", "")
    assert letter.endswith("Published.")


@pytest.mark.usefixtures("town")
async def test_how_a_problems_own_solutions_ended_is_told(olga: Desk) -> None:
    zipped, text = problem(slug="verified")
    report = json.loads(text)
    report["problems"][0]["solutions"] = [
        {"name": "good.py", "kind": "correct", "verdict": "passed", "as_expected": True},
        {"name": "bad.py", "kind": "wrong", "verdict": "wrong_answer", "as_expected": True},
    ]
    given = {
        "leaderboard_name": "verified",
        "deadline": "none",
        "reference_code": zipped,
        "report": Blob("report.json", "application/json", json.dumps(report).encode()),
    }
    said = await olga.ask("leaderboard create", **given, description="Copy it.")
    assert "have a statement.md" in said
    await olga.press(await begun(olga, given), "Publish", "version 1 published")
    named = {"leaderboard_name": "verified"}
    said = (await olga.ask("admin verify-task", **named)).replace("\\", "")
    assert "✅ correct good.py: passed" in said
    assert "✅ wrong bad.py: wrong_answer" in said
    said = await olga.ask("admin verify-task", **named, mode="correct")
    assert "bad" not in said
    assert "Not done" in await olga.ask("admin verify-task", leaderboard_name="nothing")
    # This bot tells everybody nothing, so there is no forum.
    assert "no_forum" in await olga.ask("admin set-forum-ids")


async def test_participants_are_called_otherwise(whole: Whole, town: Simulator, olga: Desk) -> None:
    zoe = Desk(whole, town.person("zoe"), await town.add_channel("named"))
    await known(zoe.person, zoe.channel)
    given = {"script": KERNEL, "gpu": "CPU", **BOARD}
    await zoe.person.slash(zoe.channel, "leaderboard submit test", **given)
    await thread_of(town, zoe.person, zoe.channel)
    _, [data] = await asked(olga, "admin get-user-names")
    [identity] = [one for one, name in json.loads(data).items() if name == "zoe"]
    path = "admin update-user-names"
    for text, expected in (
        ("no json", "is no JSON"),
        ("[]", "is no object"),
        ('{"nobody": "x"}', "no participant's id"),
        (json.dumps({identity: "Not A Name"}), "is no name"),
        (json.dumps({identity: "olga"}), "name of another participant"),
        (json.dumps({identity: "zoe"}), "called so already"),
        (json.dumps({identity: "zoe-z"}), "✅ zoe → **zoe-z**"),
    ):
        said = await olga.ask(path, attachment=names(text.encode()), **WHY)
        assert expected in said.replace("\\", ""), (text, said)
    _, [data] = await asked(olga, "admin get-user-names")
    assert json.loads(data)[identity] == "zoe-z"
    # Who they were leads to who they are.
    assert "is kept out" in await olga.ask("admin ban", participant="zoe", **WHY)
    assert "may take part" in await olga.ask("admin unban", participant="zoe-z", **WHY)
