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

from discord_edge.bot.client import build_command_groups
from discord_sim.cdn import FileUpload
from discord_sim.simulator import Simulator
from tests.discord.channel_users import (
    WHY,
    ChannelUser,
    grant_role,
    message_text,
    start_publication,
    wait_for_acts,
    zip_problem,
)
from tests.discord.platform import (
    EDGE_MARKS,
    END_S,
    KERNEL,
    RANKED,
    EdgePlatform,
    newest_thread,
    wait_until_known,
)
from tests.support.examples import CPP
from tests.support.repository import REPOSITORY, made_repository
from tests.support.waits import eventually

pytestmark = EDGE_MARKS

BOARD = {"leaderboard_name": "identity"}


def names(data: bytes) -> FileUpload:
    """A file with ids and names."""
    return FileUpload("names.json", "application/json", data)


async def asked(channel_user: ChannelUser, path: str, **given: Any) -> tuple[str, list[bytes]]:
    """What a command answers, and the files of its answer."""
    message = await (
        await channel_user.person.slash(channel_user.channel, path, **given)
    ).answered()
    return message_text(message), [
        channel_user.edge_platform.sim.cdn.data(one) for one in message["attachments"]
    ]


async def test_only_admins_may_use_these_commands(
    edge_platform: EdgePlatform, edge_sim: Simulator
) -> None:
    # Shown the commands as who manages the server is, and a moderator in both places.
    mod = ChannelUser(
        edge_platform,
        edge_sim.person("max", edge_platform.roles["moderator"]),
        await edge_sim.add_channel("no"),
    )
    refused = "Not done"
    assert refused in await mod.use_command("moderate hold", submission=1, rule="r", **WHY)
    await grant_role(edge_platform, "max", "moderator")
    for path, given in (
        ("admin rate-limit", {**BOARD, "value": "ranked=1/day", **WHY}),
        ("admin invites", {**BOARD, "count": 1, **WHY}),
        ("admin export", BOARD),
        ("admin update-problems", {"repository_name": REPOSITORY, "dry_run": False}),
        ("admin create-local", {"directory": "identity", "unchecked": "a test"}),
        ("admin verify-task", BOARD),
        ("admin set-forum-ids", {"dry_run": False}),
        ("admin get-user-names", {}),
        ("admin update-user-names", {"attachment": names(b"{}"), **WHY}),
    ):
        assert "role_missing" in await mod.use_command(path, **given), path


@pytest.mark.usefixtures("edge_sim")
async def test_an_admin_sets_quotas(olga: ChannelUser) -> None:
    person = olga.person.id
    for given, expected in (
        ({"value": "ranked=900/day"}, "give a `reason`"),
        ({"value": "ranked=often", **WHY}, "quota: write"),
        ({"value": "ranked=900/day", **WHY}, "ranked=900/day"),
        ({}, "ranked=900/day"),
        ({"value": "ranked=none", **WHY}, "→ ranked=none"),
        ({"value": "often", "user": person, **WHY}, "is not a quota"),
        ({"value": "test=900/hour", "user": person, **WHY}, "**olga** only"),
        ({"value": "test=900/hour", "participant": "no-such-one", **WHY}, "Not done"),
        ({"value": "test=1/hour", "participant": "a", "user": person, **WHY}, "choose either"),
    ):
        said = await olga.use_command("admin rate-limit", **BOARD, **given)
        assert expected in said.replace("\\", ""), (given, said)
    assert "Not done" in await olga.use_command("admin rate-limit", leaderboard_name="nothing")
    await wait_for_acts(olga.edge_platform, "QuotaLimitSet")


async def test_a_local_problem_is_closed_and_joined_by_invite(
    edge_platform: EdgePlatform, edge_sim: Simulator, olga: ChannelUser
) -> None:
    path = "admin create-local"
    [found] = await olga.person.autocomplete(olga.channel, path, "directory", directory="identi")
    why = {"unchecked": "it is checked elsewhere"}
    assert "bad_directory" in await olga.use_command(path, directory="../tests", **why)
    said = await olga.use_command(path, directory=found["value"], gpu="CPU", closed=True, **why)
    assert "**identity-dev** version 1 published" in said.replace("\\", "")
    closed = {"leaderboard_name": "identity-dev"}
    # What not everybody may see is offered to who runs it, and to nobody else.
    typed = {"leaderboard_name": "identity-d"}
    for path, offered in (("admin invites", ["identity-dev"]), ("leaderboard task", [])):
        shown = await olga.person.autocomplete(olga.channel, path, "leaderboard_name", **typed)
        assert [one["value"] for one in shown] == offered
    assert "has no invites" in await olga.use_command("admin invites", **closed)
    assert "give a `reason`" in await olga.use_command("admin invites", **closed, count=2)
    assert "is in the past" in await olga.use_command(
        "admin invites", **closed, count=2, until="2020-01-01", **WHY
    )
    said = await olga.use_command("admin invites", **closed, count=2, until="2099-01-01", **WHY)
    used, free = (line.strip("`") for line in said.splitlines()[1:])
    ivy = ChannelUser(edge_platform, edge_sim.person("ivy"), await edge_sim.add_channel("invited"))
    assert "Not done" in await ivy.use_command("leaderboard task", **closed)
    assert "identity-dev" in await ivy.use_command("leaderboard join", code=used)
    assert "Copy a vector" in await ivy.use_command("leaderboard task", **closed)
    said = await olga.use_command("admin invites", **closed)
    assert "used by ivy" in said
    assert f"`{free}` · free · valid until 2099" in said
    twice = {"count": 1, "revoke": used, **WHY}
    assert "choose either" in await olga.use_command("admin invites", **closed, **twice)
    assert "no such invite" in await olga.use_command("admin invites", **BOARD, revoke=used, **WHY)
    assert "no longer a member" in await olga.use_command(
        "admin invites", **closed, revoke=used, **WHY
    )
    assert "Not done" in await ivy.use_command("leaderboard task", **closed)
    await wait_for_acts(edge_platform, "InviteIssued", "InviteRevoked")


async def test_local_commands_exist_only_with_a_problems_folder() -> None:
    def names(*, has_local: bool) -> set[str]:
        found = {one.name: one for one in build_command_groups({"admin"}, has_local=has_local)}
        return {one.name for one in found["admin"].commands}

    assert names(has_local=True) - names(has_local=False) == {"create-local"}


async def test_a_leaderboard_is_exported_and_explained(
    edge_platform: EdgePlatform, edge_sim: Simulator, olga: ChannelUser
) -> None:
    ned, channel = edge_sim.person("ned"), await edge_sim.add_channel("exported")
    await wait_until_known(ned, channel)
    await ned.slash(channel, RANKED, script=KERNEL, gpu="CPU", **BOARD)
    room = await newest_thread(edge_sim, ned, channel)
    [thread] = [one for one in ned.threads(channel) if one["id"] == room]
    number = int(thread["name"].split()[0].removeprefix("#"))

    async def exported() -> Any:
        said, [data] = await asked(olga, "admin export", **BOARD, filename="all.parquet")
        assert "for you only" in said
        table = pyarrow.parquet.read_table(io.BytesIO(data))
        return next((row for row in table.to_pylist() if row["submission_id"] == number), None)

    # What is read, and the archive below, are a moment behind the log.
    row = await eventually(exported, END_S)
    assert row["code"].encode() == KERNEL.data
    assert "private_only" in await olga.use_command("admin export", **BOARD, private=False)
    assert "no leaderboard" in await olga.use_command("admin export", leaderboard_name="nothing")
    assert "is not a file name" in await olga.use_command("admin export", **BOARD, filename="../x")

    async def explained(count: int, expected: str, **given: Any) -> str:
        said, files = await asked(olga, "moderate audit", **given)
        told = said + b"".join(files).decode()
        return told if told.count(expected) >= count else ""

    told = await eventually(lambda: explained(1, "SubmissionReceived", submission=number), END_S)
    for expected in (f"**#{number}** identity · CPU", "by account:"):
        assert expected in told, told
    changes = ("closed", "public")
    for value in changes:
        await olga.use_command("admin visibility", **BOARD, value=value, reason="to be explained")

    # Other tests may have changed the leaderboard before, so these changes are waited for.
    told = await eventually(lambda: explained(len(changes), "to be explained", **BOARD), END_S)
    assert all(f"to be explained (visibility {change})" in told for change in changes), told
    for given in ({}, {"submission": number, **BOARD}):
        assert "choose either" in await olga.use_command("moderate audit", **given)
    assert "Not done" in await olga.use_command("moderate audit", submission=10**9)
    await wait_for_acts(edge_platform, "OperatorActed")


def changed_repository(folder: Path, statement: str) -> None:
    """Another version of what the repository holds."""
    if not folder.exists():
        made_repository(folder)
    (folder / "problems" / "good" / "copy" / "statement.md").write_text(f"Copy it: {statement}.\n")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "commit", "-qam", "Say less."], check=True, timeout=60)


def letters(channel_user: ChannelUser) -> list[str]:
    """What somebody was told by letter of their errands."""
    said = [one["content"] for one in channel_user.person.letters()]
    return [one for one in said if "update-problems" in one]


async def wait_for_question(channel_user: ChannelUser, path: str, **given: Any) -> Any:
    """Use a command, and return the message in which it asks whether to publish."""
    message = await (
        await channel_user.person.slash(channel_user.channel, path, **given)
    ).answered()
    await channel_user.edge_platform.sim.record.until(
        lambda: "Publish this?" in message_text(message),
        f"a question in {message_text(message)}",
        END_S,
    )
    return message


@pytest.mark.usefixtures("edge_sim")
async def test_a_repository_is_shown_before_it_is_published(
    edge_platform: EdgePlatform, olga: ChannelUser
) -> None:
    await asyncio.to_thread(made_repository, edge_platform.running.folder.parent / "repository")
    path, named = "admin update-problems", {"repository_name": REPOSITORY}
    # Nobody said why nothing of it is checked, neither here nor in the settings.
    assert "check_missing" in await olga.use_command(path, **named)
    named["unchecked"] = "it is checked elsewhere"
    assert "unknown_repository" in await olga.use_command(path, repository_name="some/body")
    assert "in `problem_set`" in await olga.use_command(path, **named, force=True)
    said = (await olga.use_command(path, **named)).replace("\\", "")
    assert "created: from-a-set" in said
    assert "error: not-there" in said
    assert "skipped: held-back (another problem of bad.yaml has an error)" in said
    assert "Nothing was published" in said
    for label, expected in (("Discard", "Discarded"), ("Apply", "Published.")):
        message = await wait_for_question(olga, path, **named, problem_set="good", dry_run=False)
        await olga.press(message, label, expected)
    said = await olga.use_command(path, **named, problem_set="good", dry_run=False)
    assert "no changes" in said
    assert "Nothing was published" in said
    await wait_for_acts(edge_platform, "OperatorActed")


@pytest.mark.parametrize("how", ["the bot is killed", "the answer is over"])
async def test_a_slow_publication_completes_and_its_result_is_sent(
    edge_platform: EdgePlatform, edge_sim: Simulator, olga: ChannelUser, how: str
) -> None:
    changed_repository(edge_platform.running.folder.parent / "repository", how)
    path = "admin update-problems"
    named = {"repository_name": REPOSITORY, "problem_set": "good", "unchecked": "elsewhere"}
    message = await wait_for_question(olga, path, **named, dry_run=False)
    before, ingest = len(letters(olga)), edge_platform.running.pid("ingest")
    assert ingest is not None
    os.kill(ingest, signal.SIGSTOP)
    try:
        await olga.press(message, "Apply", "Publishing ada/kernels: 0 of 1 published")
        if how == "the bot is killed":
            await edge_platform.kill()
        edge_sim.clock.turn(16 * 60)
    finally:
        # What comes back knows nothing of who had asked.
        os.kill(ingest, signal.SIGKILL)
    if how == "the bot is killed":
        await edge_platform.start()
    await edge_sim.record.until(lambda: len(letters(olga)) > before, "a letter", END_S)
    [letter] = letters(olga)[before:]
    assert ": from-a-set" in letter.replace("\\", "")
    assert letter.endswith("Published.")


@pytest.mark.usefixtures("edge_sim")
async def test_a_leaderboard_comes_from_one_file_in_cuda(olga: ChannelUser) -> None:
    text = CPP.replace("//!POPCORN gpus CPU\n", "")
    given = {
        "leaderboard_name": "from-one-file",
        "deadline": "none",
        "unchecked": "by hand",
        "reference_code": FileUpload("reference.cu", "text/plain", text.encode()),
    }
    lacking = FileUpload("reference.cu", "text/plain", text.replace("ref_kernel", "k").encode())
    said = await olga.use_command("leaderboard create", **{**given, "reference_code": lacking})
    assert "reference.cu does not define ref" in said.replace("\\", "")
    # The file names no GPU types: those with agents are offered.
    doing = await olga.person.slash(olga.channel, "leaderboard create", **given)
    message = await doing.answered()
    await (await olga.person.select(message, ["CPU"])).acknowledged()
    record = olga.edge_platform.sim.record
    await record.until(lambda: "Publish this?" in message_text(message), "a preview", END_S)
    await olga.press(message, "Publish", "version 1 published")
    said = await olga.use_command("leaderboard template", leaderboard_name="from-one-file")
    assert "Start `from-one-file` from this file" in said


@pytest.mark.usefixtures("edge_sim")
async def test_the_results_of_a_problems_solutions_are_shown(olga: ChannelUser) -> None:
    zipped, text = zip_problem(slug="verified")
    report = json.loads(text)
    report["problems"][0]["solutions"] = [
        {"name": "good.py", "kind": "correct", "verdict": "passed", "as_expected": True},
        {"name": "bad.py", "kind": "wrong", "verdict": "wrong_answer", "as_expected": True},
    ]
    given = {
        "leaderboard_name": "verified",
        "deadline": "none",
        "reference_code": zipped,
        "report": FileUpload("report.json", "application/json", json.dumps(report).encode()),
    }
    # An admin needs no report, but a reason.
    unchecked = {name: value for name, value in given.items() if name != "report"}
    assert "check_missing" in await olga.use_command("leaderboard create", **unchecked)
    message = await start_publication(olga, {**unchecked, "unchecked": "by hand"})
    assert "not checked: by hand" in message_text(message)
    await olga.press(message, "Discard", "Discarded")
    said = await olga.use_command("leaderboard create", **given, description="Copy it.")
    assert "have a statement.md" in said
    await olga.press(await start_publication(olga, given), "Publish", "version 1 published")
    named = {"leaderboard_name": "verified"}
    said = (await olga.use_command("admin verify-task", **named)).replace("\\", "")
    assert "✅ correct good.py: passed" in said
    assert "✅ wrong bad.py: wrong_answer" in said
    said = await olga.use_command("admin verify-task", **named, mode="correct")
    assert "bad" not in said
    assert "Not done" in await olga.use_command("admin verify-task", leaderboard_name="nothing")
    # This bot tells everybody nothing, so there is no forum.
    assert "no_forum" in await olga.use_command("admin set-forum-ids")


async def test_participants_are_renamed(
    edge_platform: EdgePlatform, edge_sim: Simulator, olga: ChannelUser
) -> None:
    zoe = ChannelUser(edge_platform, edge_sim.person("zoe"), await edge_sim.add_channel("named"))
    await wait_until_known(zoe.person, zoe.channel)
    given = {"script": KERNEL, "gpu": "CPU", **BOARD}
    await zoe.person.slash(zoe.channel, "leaderboard submit test", **given)
    await newest_thread(edge_sim, zoe.person, zoe.channel)
    _, [data] = await asked(olga, "admin get-user-names")
    [identity] = [one for one, name in json.loads(data).items() if name == "zoe"]
    path = "admin update-user-names"
    for text, expected in (
        ("no json", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"nobody": "x"}', "not the id of a participant"),
        (json.dumps({identity: "Not A Name"}), "is not a valid name"),
        (json.dumps({identity: "olga"}), "name of another participant"),
        (json.dumps({identity: "zoe"}), "changes no names"),
        (json.dumps({identity: "zoe-z"}), "✅ zoe → **zoe-z**"),
    ):
        said = await olga.use_command(path, attachment=names(text.encode()), **WHY)
        assert expected in said.replace("\\", ""), (text, said)
    _, [data] = await asked(olga, "admin get-user-names")
    assert json.loads(data)[identity] == "zoe-z"
    # Who they were leads to who they are.
    assert "is banned" in await olga.use_command("admin ban", participant="zoe", **WHY)
    assert "may participate again" in await olga.use_command(
        "admin unban", participant="zoe-z", **WHY
    )
