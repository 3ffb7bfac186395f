"""The commands of `/moderate` and `/admin`, and the pages where operators do everything else."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import discord
from discord import app_commands

from discord_edge.bot.interactions import (
    ADMIN,
    BotInteraction,
    Commands,
    Number,
    Reason,
    VisibleLeaderboard,
    defer,
    reply,
    reply_with_lines,
    run_decision,
)
from discord_edge.platform_api import DiscordUser
from discord_edge.problems.drafts import deadline_text, parse_closing_time
from discord_edge.wording import escaped
from shared.api.accounts import CurrentAccount
from shared.api.leaderboards import InviteCodes, LeaderboardSettings
from shared.clock import now
from shared.errors import Refused

MODERATORS = ("moderator", ADMIN)
AUTHORS = ("creator", ADMIN)
CODES_MAX = 500
Rule = app_commands.Range[str, 1, 200]
OUTCOMES = {
    "hold": "is off its leaderboard until it is reviewed",
    "release": "is no longer held",
    "disqualify": "does not count",
}
# What operators do elsewhere: by page of the web site, and by command where there is no page.
PAGES: Mapping[str, str] = {
    "/admin": "what needs attention",
    "/admin/overdue": "retry and cancel submissions",
    "/admin/held": "restore a disqualified submission",
    "/admin/labels": "see what the advisory screen noted",
    "/admin/appeals": "decide appeals",
    "/admin/participants": "lift bans, rename participants, grant roles, revoke tokens",
    "/admin/agents": "list, enroll, drain, quarantine and release agents",
    "/admin/intake": "stop and start the intake, pause GPU types, choose canaries",
    "/admin/invites": "list and revoke invites",
    "/admin/evaluations": "see what evaluations used, by token",
    "/admin/dead-letters": "deliver events again, or skip them",
    "/queue": "the queues and launchers",
}
SHELL_COMMANDS: Mapping[str, str] = {
    "warpboard admin leaderboard edit": "choose who sees a leaderboard, and its quotas",
    "warpboard admin quota set": "set the quota of one participant",
    "warpboard problem publish": "publish problems from a folder",
    "warpboard problem rejudge start": "rejudge submissions, with a preview",
    "warpboard submission show": "read the history of a submission",
    "warpboard submission delete": "take a submission off its leaderboard for good",
}


async def _decide(
    interaction: BotInteraction,
    decision: str,
    number: int,
    roles: Sequence[str] = MODERATORS,
    **body: str,
) -> None:
    api = await defer(interaction, *roles)
    note = await run_decision(api, "admin", "submissions", number, decision, **body)
    await reply(interaction, f"Submission **#{number}** {OUTCOMES[decision]}.{note}")


@app_commands.command()
@app_commands.describe(rule="The rule that it breaks")
async def hold(interaction: BotInteraction, submission: Number, rule: Rule, reason: Reason) -> None:
    """Keep a submission unranked until it is reviewed"""
    await _decide(interaction, "hold", submission, rule=rule, reason=reason)


@app_commands.command()
async def release(interaction: BotInteraction, submission: Number, reason: Reason) -> None:
    """Let a held submission count"""
    await _decide(interaction, "release", submission, reason=reason)


@app_commands.command()
@app_commands.describe(rule="The rule that it breaks")
async def disqualify(
    interaction: BotInteraction, submission: Number, rule: Rule, reason: Reason
) -> None:
    """Disqualify a submission"""
    await _decide(interaction, "disqualify", submission, rule=rule, reason=reason)


@app_commands.command(name="hold")
@app_commands.describe(rule="The rule that it breaks")
async def hold_to_own(
    interaction: BotInteraction, submission: Number, rule: Rule, reason: Reason
) -> None:
    """Keep a submission to your problem unranked until it is reviewed"""
    await _decide(interaction, "hold", submission, AUTHORS, rule=rule, reason=reason)


@app_commands.command(name="release")
async def release_to_own(interaction: BotInteraction, submission: Number, reason: Reason) -> None:
    """Let a held submission to your problem count"""
    await _decide(interaction, "release", submission, AUTHORS, reason=reason)


@app_commands.command()
@app_commands.describe(
    user="The participant's Discord user",
    participant="The participant's name on the platform",
    until="YYYY-MM-DD HH:MM in UTC; permanent if left out",
)
async def ban(
    interaction: BotInteraction,
    reason: Reason,
    user: discord.User | None = None,
    participant: str | None = None,
    until: str | None = None,
) -> None:
    """Ban a participant"""
    api = await defer(interaction, ADMIN)
    ends_at = None if until is None else parse_closing_time(until, now())
    name = await _find_name(interaction, user, participant)
    body = {"reason": reason}
    if ends_at:
        body["until_at"] = ends_at.astimezone(UTC).isoformat()
    note = await run_decision(api, "admin", "participants", name, "ban", **body)
    duration = f"until {deadline_text(ends_at)}" if ends_at else "permanently"
    await reply(interaction, f"**{escaped(name)}** is banned {duration}.{note}")


async def _find_name(
    interaction: BotInteraction, user: discord.User | None, participant: str | None
) -> str:
    """Return the participant's name on the platform. Raises `Refused` and `Failed`."""
    if user is None and participant is not None:
        return participant.strip().lower()
    if user is None or participant is not None:
        raise Refused("invalid_request", "choose either `user` or `participant`", "user")
    api = interaction.client.api.on_behalf_of(DiscordUser(user.id))
    account = await api.get_if_known(CurrentAccount, "me")
    if account is None:
        reason = "this user has never used the bot, so the platform does not know them"
        raise Refused("unknown_participant", reason, "user")
    return account.name


@app_commands.command()
@app_commands.describe(value="YYYY-MM-DD HH:MM in UTC, or none")
async def deadline(
    interaction: BotInteraction, leaderboard_name: VisibleLeaderboard, value: str, reason: Reason
) -> None:
    """When a leaderboard closes"""
    api, path = await defer(interaction, ADMIN), ("leaderboards", leaderboard_name)
    ends_at = parse_closing_time(value, now())
    old = (await api.get(LeaderboardSettings, *path)).deadline_at
    at = None if ends_at is None else ends_at.isoformat()
    await api.request(object, "PUT", "admin", *path, deadline_at=at, reason=reason)
    new = (await api.get(LeaderboardSettings, *path)).deadline_at
    change = f"{_instant_text(old)} → {_instant_text(new)}" if old != new else "not changed"
    await reply(interaction, f"**{leaderboard_name}** deadline: {change}.")


def _instant_text(at: datetime | None) -> str:
    return "none" if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"


@app_commands.command()
@app_commands.describe(
    count="The number of new invites", until="YYYY-MM-DD HH:MM in UTC: when they expire"
)
async def invites(
    interaction: BotInteraction,
    leaderboard_name: VisibleLeaderboard,
    count: app_commands.Range[int, 1, CODES_MAX],
    reason: Reason,
    until: str | None = None,
) -> None:
    """Create invites to a closed leaderboard"""
    api = await defer(interaction, ADMIN)
    expires_at = None if until is None else parse_closing_time(until, now())
    body: dict[str, object] = {"leaderboards": [leaderboard_name], "count": count, "reason": reason}
    body |= {} if expires_at is None else {"expires_at": expires_at.isoformat()}
    codes = (await api.request(InviteCodes, "POST", "admin", "invites", **body)).codes
    head = f"`{leaderboard_name}`: each admits one participant with `/leaderboard join`."
    await reply_with_lines(interaction, [head, *(f"`{code}`" for code in codes)])


@app_commands.command()
async def pages(interaction: BotInteraction) -> None:
    """Where operators do everything else"""
    api = await defer(interaction, *MODERATORS)
    lines = ["On the web site:"]
    for path, acts in PAGES.items():
        link = api.link(path)
        lines.append(f"- {f'<{link}>' if link else f'`{path}`'}: {acts}")
    lines.append("From a terminal:")
    lines += [f"- `{command}`: {acts}" for command, acts in SHELL_COMMANDS.items()]
    await reply_with_lines(interaction, lines)


AUTHOR_COMMANDS: Commands = (hold_to_own, release_to_own)
MODERATION_COMMANDS: Commands = (hold, release, disqualify)
ADMIN_COMMANDS: Commands = (ban, deadline, invites, pages)
