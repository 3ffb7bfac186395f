"""`/admin …`: the platform's switches, people and leaderboards, for who runs it."""

import json
from dataclasses import replace
from datetime import UTC
from typing import Any, Literal
from urllib.parse import urlencode

import discord
from discord import app_commands

from discord_edge.bot import authors, datasets, forum, limiting, local, naming, sets
from discord_edge.bot.asking import Here, say
from discord_edge.bot.drawing import embed, files
from discord_edge.bot.staff import (
    LOOKED,
    Named,
    Number,
    Question,
    Reason,
    acted,
    any_board,
    begun,
    decided,
    done,
    hidden,
    participant_of,
    told,
)
from discord_edge.domain import evidence, tables
from discord_edge.domain.publishing import ends_at, instant
from discord_edge.domain.report import Attached, fitted, report
from discord_edge.domain.wording import escaped
from shared.clock import now
from shared.errors import Failed, Refused
from shared.telling.answers import Submission, read

ADMIN = "admin"
KEEP_S = 30.0


class Admin(app_commands.Group):
    """The commands of admins, hidden from who does not run the server.

    What is for developing alone is there where problems to develop on are.
    """

    def __init__(self, *, has_local: bool = False) -> None:
        about = "Run the platform"
        super().__init__(
            name="admin", description=about, guild_only=True, default_permissions=hidden()
        )
        developing = local.COMMANDS if has_local else ()
        for one in (*SWITCHES, *PEOPLE, *BOARDS, *PROBLEMS, *LOOKS, *developing):
            self.add_command(one)


async def _switched(here: Here, act: str, reason: str, said: str) -> None:
    user = await begun(here, ADMIN)
    again = await decided(here, user, ("admin", "intake", act), reason=reason)
    await say(here, said + again)


@app_commands.command(name="start", description="Take submissions in again")
async def start(here: Here, reason: Reason) -> None:
    """Open the intake."""
    await _switched(here, "resume", reason, "Submissions are taken in.")


@app_commands.command(name="stop", description="Take no submission in; those that are in go on")
async def stop(here: Here, reason: Reason) -> None:
    """Close the intake, until somebody opens it."""
    await _switched(here, "pause", reason, "No submission is taken in, until `/admin start`.")


@app_commands.command(name="ban", description="Keep a participant out")
@app_commands.describe(
    user="Who, on Discord",
    participant="Who, by their name on the platform",
    until="YYYY-MM-DD HH:MM in UTC; for ever if it is not said",
)
async def ban(
    here: Here,
    reason: Reason,
    user: discord.User | None = None,
    participant: str | None = None,
    until: str | None = None,
) -> None:
    """Keep somebody out, everywhere."""
    staff = await begun(here, ADMIN)
    ends = None if until is None else ends_at(until, now())
    name = await participant_of(here, user, participant)
    said = {"reason": reason} | ({"until_at": ends.astimezone(UTC).isoformat()} if ends else {})
    again = await decided(here, staff, ("admin", "participants", name, "ban"), **said)
    last = f"until {instant(ends)}" if ends else "for ever"
    await say(here, f"**{escaped(name)}** is kept out, {last}.{again}")


@app_commands.command(name="unban", description="Let a participant in again")
async def unban(
    here: Here, reason: Reason, user: discord.User | None = None, participant: str | None = None
) -> None:
    """End a ban."""
    staff = await begun(here, ADMIN)
    name = await participant_of(here, user, participant)
    again = await decided(here, staff, ("admin", "participants", name, "unban"), reason=reason)
    await say(here, f"**{escaped(name)}** may take part.{again}")


async def _changed(here: Here, slug: str, said: dict[str, Any]) -> None:
    """Change a leaderboard, and say what was and what is. Errors: Refused; Failed."""
    user, slug = await begun(here, ADMIN), slug.strip().lower()
    old = await here.client.api.get(user, "leaderboards", slug)
    await done(here, user, "PUT", "admin", "leaderboards", slug, **said)
    new = await here.client.api.get(user, "leaderboards", slug)
    names = [name for name in ("visibility", "deadline_at") if old[name] != new[name]]
    lines = [f"{name}: {old[name] or 'none'} → {new[name] or 'none'}" for name in names]
    await say(here, f"**{slug}**: " + ("; ".join(lines) or "it was so already") + ".")


@app_commands.command(name="visibility", description="Who sees a leaderboard")
@app_commands.autocomplete(leaderboard_name=any_board)
async def visibility(
    here: Here, leaderboard_name: Named, value: Literal["public", "closed"], reason: Reason
) -> None:
    """Show a leaderboard to everybody, or to members alone."""
    await _changed(here, leaderboard_name, {"visibility": value, "reason": reason})


@app_commands.command(name="deadline", description="When a leaderboard closes")
@app_commands.describe(value="YYYY-MM-DD HH:MM in UTC, or none")
@app_commands.autocomplete(leaderboard_name=any_board)
async def deadline(here: Here, leaderboard_name: Named, value: str, reason: Reason) -> None:
    """Move a deadline."""
    ends = ends_at(value, now())
    said = {"deadline_at": None if ends is None else ends.isoformat(), "reason": reason}
    await _changed(here, leaderboard_name, said)


@app_commands.command(name="delete-leaderboard", description="Archive any leaderboard")
@app_commands.describe(force="Archive it even if there are entries on it")
@app_commands.autocomplete(leaderboard_name=any_board)
async def delete_leaderboard(here: Here, leaderboard_name: Named, force: bool = False) -> None:
    """Let a leaderboard take nothing in any more."""
    await authors.archive(here, leaderboard_name, ADMIN, is_forced=force)


@app_commands.command(name="delete-submission", description="Take a submission off for ever")
async def delete_submission(here: Here, submission: Number, reason: Reason) -> None:
    """Show what it is, ask, and withdraw it."""
    user = await begun(here, ADMIN)
    found = read(await here.client.api.get(user, "submissions", submission), Submission)
    view = Question(here.user.id, "Delete", "Keep", KEEP_S)
    said = "Take this off its leaderboard, for ever? Its history stays."
    await here.edit_original_response(content=said, embed=embed(report(found)), view=view)
    if not await view.answered():
        await say(here, f"Submission **#{submission}** is kept.")
        return
    await done(here, user, "DELETE", "submissions", submission, reason=reason)
    await say(here, f"Submission **#{submission}** is off its leaderboard, for ever.")


@app_commands.command(
    name="get-submission", description="Anybody's submission, with its runs and history"
)
async def get_submission(here: Here, submission_id: Number) -> None:
    """One submission with its source and all that is known; that it was looked at is kept."""
    user = await begun(here, ADMIN)
    await acted(here, user, f"submission {submission_id}", LOOKED)
    whole = await here.client.api.get(user, "submissions", submission_id, source="true")
    found = read(whole, Submission)
    source = str(whole.pop("source", None) or "")
    history = "\n".join(map(evidence.happened, whole.pop("timeline")))
    beside = ((found.name, source), ("runs.json", json.dumps(whole, indent=1)))
    card = report(found)
    more = [
        Attached(name, text.encode()) for name, text in (*beside, ("history.txt", history)) if text
    ]
    card = fitted(replace(card, files=(*card.files, *more)), here.filesize_limit)
    said = f"By **{escaped(str(whole.get('participant') or 'nobody'))}**, {found.state}."
    await here.edit_original_response(content=said, embed=embed(card), attachments=files(card))


@app_commands.command(name="show-stats", description="How much there was to do")
@app_commands.autocomplete(leaderboard_name=any_board)
async def show_stats(here: Here, last_day_only: bool, leaderboard_name: str | None = None) -> None:
    """The figures that operators have."""
    user = await begun(here, ADMIN)
    await acted(here, user, leaderboard_name or "all leaderboards", LOOKED)
    asked = {"last_day_only": str(last_day_only).lower()}
    asked |= {"leaderboard_name": leaderboard_name} if leaderboard_name else {}
    data = await here.client.api.file(user, f"/admin/stats?{urlencode(asked)}")
    stats: dict[str, Any] = json.loads(data)["stats"]
    lines = [f"{escaped(name)}: {value:g}" for name, value in stats.items() if value is not None]
    await told(here, lines, "There was nothing to do.")


@app_commands.command(name="health", description="Whether all of the platform is there")
async def health(here: Here) -> None:
    """What answers, how far the read models are, and what was given up."""
    user, api = await begun(here, ADMIN), here.client.api
    await acted(here, user, "the platform", LOOKED)
    try:
        await api.file(None, "/health")
        lines = ["log and database: they answer"]
    except (Refused, Failed) as trouble:
        lines = [f"log and database: {escaped(str(trouble))}"]
    paused = (await api.get(user, "intake"))["paused"]
    lines.append(f"intake: {'stopped: ' + escaped(paused) if paused else 'open'}")
    queues = await api.get(user, "queue")
    parked = queues.get("parked")
    stands = f"stand before event {parked['seq']}" if parked else f"event {queues['as_of']}"
    lines.append(f"read models: {stands}")
    letters = (await api.get(user, "admin", "deadletters"))["items"]
    lines.append(f"events that were given up: {len(letters)}")
    for gpu in api_gpus(queues):
        lines.append(tables.queue(gpu, await api.get(user, "queue", gpu)))
    await told(here, lines, "")


def api_gpus(queues: dict[str, Any]) -> list[str]:
    """The GPU types that have a queue."""
    return [str(one["gpu"]) for one in queues["pools"]][:25]


@app_commands.command(name="resync", description="Tell Discord of all commands anew")
async def resync(here: Here) -> None:
    """Sync the commands, whatever was synced before."""
    user = await begun(here, ADMIN)
    await acted(here, user, "the commands", "synced on Discord")
    synced = await here.client.tree.sync(guild=discord.Object(here.client.guild_id))
    await say(here, f"Discord knows {len(synced)} commands.")


Commands = tuple[app_commands.Command[Any, ..., Any], ...]
SWITCHES: Commands = (start, stop)
PEOPLE: Commands = (ban, unban, *naming.COMMANDS)
BOARDS: Commands = (visibility, deadline, delete_leaderboard, *limiting.COMMANDS)
PROBLEMS: Commands = (*sets.COMMANDS, *datasets.COMMANDS, *forum.COMMANDS)
LOOKS: Commands = (delete_submission, get_submission, show_stats, health, resync)
