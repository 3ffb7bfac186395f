"""What admins do about leaderboards on Discord, by the real bot before the real platform."""

import pytest

from discord_sim.cdn import FileUpload
from discord_sim.simulator import Simulator
from tests.discord.channel_users import (
    WHY,
    ChannelUser,
    grant_role,
    message_text,
    preview_publication,
    start_publication,
    wait_for_acts,
    zip_problem,
)
from tests.discord.platform import EDGE_MARKS, END_S, EdgePlatform
from tests.support.examples import CPP

pytestmark = EDGE_MARKS

BOARD = {"leaderboard_name": "identity"}


async def test_only_admins_may_use_these_commands(
    edge_platform: EdgePlatform, edge_sim: Simulator
) -> None:
    # A moderator on the server and on the platform.
    mod = ChannelUser(
        edge_platform,
        edge_sim.person("max", edge_platform.roles["moderator"]),
        await edge_sim.add_channel("no"),
    )
    assert "Not done" in await mod.use_command("moderate hold", submission=1, rule="r", **WHY)
    await grant_role(edge_platform, "max", "moderator")
    for path, given in (
        ("admin ban", {"participant": "max"}),
        ("admin deadline", {**BOARD, "value": "none"}),
        ("admin invites", {**BOARD, "count": 1}),
    ):
        assert "role_missing" in await mod.use_command(path, **given, **WHY), path
    assert "/admin/held" in await mod.use_command("admin pages")


@pytest.mark.feature("P25")
async def test_a_closed_leaderboard_is_joined_by_invite(
    edge_platform: EdgePlatform, edge_sim: Simulator, olga: ChannelUser
) -> None:
    closed = {"leaderboard_name": "by-invite"}
    asked = {
        **closed,
        "deadline": "none",
        "reference_code": zip_problem(slug="by-invite")[0],
        "gpu": "CPU",
        "unchecked": "a test",
        "visibility": "closed",
    }
    message = await preview_publication(olga, asked)
    assert "visible to members only" in message_text(message)
    await olga.press(message, "Publish", "version 1 published")
    # The bot offers a closed leaderboard to operators only.
    typed = {"leaderboard_name": "by-i"}
    for path, offered in (("admin invites", ["by-invite"]), ("leaderboard task", [])):
        shown = await olga.person.autocomplete(olga.channel, path, "leaderboard_name", **typed)
        assert [one["value"] for one in shown] == offered
    path, invited = "admin invites", {**closed, "count": 1, **WHY}
    assert "is in the past" in await olga.use_command(path, **invited, until="2020-01-01")
    said = await olga.use_command(path, **invited, until="2099-01-01")
    [code] = (line.strip("`") for line in said.splitlines()[1:])
    ivy = ChannelUser(edge_platform, edge_sim.person("ivy"), await edge_sim.add_channel("invited"))
    assert "Not done" in await ivy.use_command("leaderboard task", **closed)
    assert "by-invite" in await ivy.use_command("leaderboard join", code=code)
    assert "Copy a vector" in await ivy.use_command("leaderboard task", **closed)
    await wait_for_acts(edge_platform, "InviteIssued")


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
async def test_an_admin_publishes_without_a_report_for_a_reason(olga: ChannelUser) -> None:
    zipped, report = zip_problem(slug="unchecked")
    given = {"leaderboard_name": "unchecked", "deadline": "none", "reference_code": zipped}
    message = await start_publication(olga, {**given, "unchecked": "by hand"})
    assert "not checked: by hand" in message_text(message)
    await olga.press(message, "Discard", "Discarded")
    checked = {**given, "report": FileUpload("report.json", "application/json", report.encode())}
    said = await olga.use_command("leaderboard create", **checked, description="Copy it.")
    assert "have a statement.md" in said
