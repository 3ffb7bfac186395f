"""The commands of `/admin` about the intake, leaderboards, submissions and the platform itself."""

import json
import re
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlencode

import discord
import msgspec
from discord import app_commands

from discord_edge.bot.dialogs import Confirmation
from discord_edge.bot.interactions import BotInteraction, Commands, reply
from discord_edge.bot.messages import build_embed, build_files, discord_file
from discord_edge.bot.staff import (
    ADMIN,
    Named,
    Number,
    Reason,
    complete_any_leaderboard,
    defer_for_role,
    record_access,
    reply_with_lines,
    run_decision,
)
from discord_edge.cards import Attachment, fit_attachments
from discord_edge.leaderboards.tables import queue_line
from discord_edge.moderation import event_line
from discord_edge.notifications.announcement_texts import match_line
from discord_edge.platform_api import PlatformApi
from discord_edge.problems.drafts import parse_closing_time
from discord_edge.problems.publishing import confirm_archive
from discord_edge.submissions.report import report_card
from discord_edge.wording import escaped
from shared.api.leaderboards import LeaderboardSettings
from shared.api.platform import DeadLetters
from shared.api.queues import IntakeStatus, QueueOfGpu, Queues
from shared.api.submissions import FullSubmission
from shared.clock import now
from shared.errors import Failed, Refused

SUFFIX = ".parquet"
# Discord may take more, but the whole file is held in memory.
BYTES_MAX = 100 * 1024 * 1024
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}\Z")
TOO_LARGE = "too_large"
KEEP_S = 30.0
POOLS_SHOWN = 25


@app_commands.command(name="export", description="All of a leaderboard's submissions, as a file")
@app_commands.describe(
    filename="The name of the file; by default the leaderboard's name",
    private="Export everything, for you only; otherwise only what is public",
)
@app_commands.autocomplete(leaderboard_name=complete_any_leaderboard)
async def export(
    interaction: BotInteraction,
    leaderboard_name: Named,
    filename: str | None = None,
    private: bool = True,
) -> None:
    """Export every submission with its source, one per row."""
    api, slug = await defer_for_role(interaction, ADMIN), leaderboard_name.strip().lower()
    name = (filename or slug).strip().removesuffix(SUFFIX)
    if not NAME.match(name):
        reason = f"{name[:40]!r} is not a file name: use 1 to 100 letters, digits, dots, _ and -"
        raise Refused("invalid_request", reason, "filename")
    body = {"leaderboard_ids": [await _find_id(api, slug)], "private": private}
    bytes_max = min(interaction.filesize_limit, BYTES_MAX)
    try:
        data = await api.post_slow("/admin/export", bytes_max, filename=name + SUFFIX, **body)
    except Refused as refused:
        if refused.code != TOO_LARGE:
            raise
        reason = (
            f"the file has more than the {bytes_max:,} bytes that can be sent here: "
            "use `POST /admin/export` of the platform's API with an admin's token"
        )
        raise Refused(TOO_LARGE, reason, "leaderboard_name") from refused
    content = "everything, for you only" if private else "what is public"
    text = f"`{slug}`, {content}: {len(data):,} bytes."
    file = discord_file(name + SUFFIX, data)
    await interaction.edit_original_response(content=text, attachments=[file])


async def _find_id(api: PlatformApi, slug: str) -> int:
    """Return the integer id that the export needs. Raises `Refused` and `Failed`."""
    data = await api.get_file("/leaderboards?state=all")
    try:
        ids = {str(board["name"]): int(board["id"]) for board in json.loads(data)}
    except (ValueError, TypeError, KeyError) as error:
        raise Failed("the platform's list of leaderboards cannot be read") from error
    if slug not in ids:
        reason = f"there is no leaderboard {slug!r}: see `/leaderboard list` with state all"
        raise Refused("unknown_problem", reason, "leaderboard_name")
    return ids[slug]


@app_commands.command(name="set-forum-ids", description="Pair the forum's posts with problems")
@app_commands.describe(dry_run="Only show what would be paired")
async def set_forum_ids(interaction: BotInteraction, dry_run: bool = True) -> None:
    """Match the bot's posts with problems, and record new pairs unless it is a dry run."""
    api = await defer_for_role(interaction, ADMIN)
    matcher = interaction.client.forum_matcher
    if matcher is None:
        reason = "this bot makes no announcements, so it has no forum: its setting PUBLIC is off"
        raise Refused("no_forum", reason)
    action = "looked at its posts" if dry_run else "paired its posts"
    await record_access(interaction, api, "the forum", action)
    matches = await matcher.match()
    if not dry_run:
        await matcher.save(matches)
    summary = "Nothing was saved: `dry_run` is true." if dry_run else "The pairs were saved."
    await reply_with_lines(interaction, [*map(match_line, matches), summary])


async def _switch_intake(interaction: BotInteraction, action: str, reason: str, text: str) -> None:
    api = await defer_for_role(interaction, ADMIN)
    note = await run_decision(api, "admin", "intake", action, reason=reason)
    await reply(interaction, text + note)


@app_commands.command(name="start", description="Accept submissions again")
async def start(interaction: BotInteraction, reason: Reason) -> None:
    """Resume the intake."""
    await _switch_intake(interaction, "resume", reason, "Submissions are accepted.")


@app_commands.command(name="stop", description="Accept no submissions; running ones continue")
async def stop(interaction: BotInteraction, reason: Reason) -> None:
    """Pause the intake until an operator resumes it."""
    text = "No submissions are accepted until `/admin start`."
    await _switch_intake(interaction, "pause", reason, text)


async def _change_leaderboard(interaction: BotInteraction, slug: str, **changes: object) -> None:
    """Change a leaderboard, and show the old and new values. Raises `Refused` and `Failed`."""
    api, slug = await defer_for_role(interaction, ADMIN), slug.strip().lower()
    path = ("leaderboards", slug)
    old = await api.get(LeaderboardSettings, *path)
    await api.request(object, "PUT", "admin", *path, **changes)
    new = await api.get(LeaderboardSettings, *path)
    values = {
        "visibility": (old.visibility, new.visibility),
        "deadline_at": (_instant_text(old.deadline_at), _instant_text(new.deadline_at)),
    }
    differences = [
        f"{name}: {before} → {after}" for name, (before, after) in values.items() if before != after
    ]
    await reply(interaction, f"**{slug}**: {'; '.join(differences) or 'nothing changed'}.")


def _instant_text(at: datetime | None) -> str:
    return "none" if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"


@app_commands.command(name="visibility", description="Who sees a leaderboard")
@app_commands.autocomplete(leaderboard_name=complete_any_leaderboard)
async def visibility(
    interaction: BotInteraction,
    leaderboard_name: Named,
    value: Literal["public", "closed"],
    reason: Reason,
) -> None:
    """Make a leaderboard visible to everybody or to members only."""
    await _change_leaderboard(interaction, leaderboard_name, visibility=value, reason=reason)


@app_commands.command(name="deadline", description="When a leaderboard closes")
@app_commands.describe(value="YYYY-MM-DD HH:MM in UTC, or none")
@app_commands.autocomplete(leaderboard_name=complete_any_leaderboard)
async def deadline(
    interaction: BotInteraction, leaderboard_name: Named, value: str, reason: Reason
) -> None:
    """Change a deadline."""
    ends_at = parse_closing_time(value, now())
    at = None if ends_at is None else ends_at.isoformat()
    await _change_leaderboard(interaction, leaderboard_name, deadline_at=at, reason=reason)


@app_commands.command(name="delete-leaderboard", description="Archive any leaderboard")
@app_commands.describe(force="Archive it even if it has entries")
@app_commands.autocomplete(leaderboard_name=complete_any_leaderboard)
async def delete_leaderboard(
    interaction: BotInteraction, leaderboard_name: Named, force: bool = False
) -> None:
    """Archive a leaderboard after a confirmation."""
    await confirm_archive(interaction, leaderboard_name, ADMIN, is_forced=force)


@app_commands.command(name="delete-submission", description="Withdraw a submission for ever")
async def delete_submission(
    interaction: BotInteraction, submission: Number, reason: Reason
) -> None:
    """Show a submission, and withdraw it after a confirmation."""
    api, path = await defer_for_role(interaction, ADMIN), ("submissions", submission)
    card = report_card(await api.get(FullSubmission, *path))
    question = "Remove this from its leaderboard for ever? Its history stays."
    confirmation = Confirmation(interaction, "Delete", "Keep", KEEP_S)
    if not await confirmation.ask(question, build_embed(card)):
        await reply(interaction, f"Submission **#{submission}** is kept.")
        return
    await api.request(object, "DELETE", *path, reason=reason)
    await reply(interaction, f"Submission **#{submission}** was removed from its leaderboard.")


@app_commands.command(
    name="get-submission", description="Any submission, with its runs and history"
)
async def get_submission(interaction: BotInteraction, submission_id: Number) -> None:
    """Show a submission with its source and history; the access is recorded in the log."""
    api = await defer_for_role(interaction, ADMIN)
    await record_access(interaction, api, f"submission {submission_id}")
    submission = await api.get(FullSubmission, "submissions", submission_id, source="true")
    runs = msgspec.structs.replace(submission, source=None, timeline=[])
    files = {
        submission.name: (submission.source or "").encode(),
        "runs.json": msgspec.json.format(msgspec.json.encode(runs), indent=1),
        "history.txt": "\n".join(map(event_line, submission.timeline)).encode(),
    }
    attachments = [Attachment(name, data) for name, data in files.items() if data]
    card = report_card(submission)
    card = replace(card, files=(*card.files, *attachments))
    card = fit_attachments(card, interaction.filesize_limit)
    participant = escaped(submission.participant or "nobody")
    await interaction.edit_original_response(
        content=f"By **{participant}**, {submission.state}.",
        embed=build_embed(card),
        attachments=build_files(card),
    )


@app_commands.command(name="show-stats", description="Statistics of the platform")
@app_commands.autocomplete(leaderboard_name=complete_any_leaderboard)
async def show_stats(
    interaction: BotInteraction, last_day_only: bool, leaderboard_name: str | None = None
) -> None:
    """Show the operators' statistics."""
    api = await defer_for_role(interaction, ADMIN)
    await record_access(interaction, api, leaderboard_name or "all leaderboards")
    query = {"last_day_only": str(last_day_only).lower()}
    query |= {"leaderboard_name": leaderboard_name} if leaderboard_name else {}
    data = await api.get_file(f"/admin/stats?{urlencode(query)}")
    stats: dict[str, Any] = json.loads(data)["stats"]
    lines = [f"{escaped(name)}: {value:g}" for name, value in stats.items() if value is not None]
    await reply_with_lines(interaction, lines, "There are no statistics.")


@app_commands.command(name="health", description="The health of the platform")
async def health(interaction: BotInteraction) -> None:
    """Show the health of log and database, the read models' progress and the queues."""
    api = await defer_for_role(interaction, ADMIN)
    await record_access(interaction, api, "the platform")
    try:
        await interaction.client.api.get_file("/health")
        lines = ["log and database: healthy"]
    except (Refused, Failed) as error:
        lines = [f"log and database: {escaped(str(error))}"]
    paused = (await api.get(IntakeStatus, "intake")).paused
    lines.append(f"intake: {'stopped: ' + escaped(paused) if paused else 'open'}")
    queues = await api.get(Queues, "queue")
    parked = queues.parked
    progress = f"stopped before event {parked.seq}" if parked else f"event {queues.as_of}"
    lines.append(f"read models: {progress}")
    dead_letters = (await api.get(DeadLetters, "admin", "deadletters")).items
    lines.append(f"dead letters: {len(dead_letters)}")
    for pool in queues.pools[:POOLS_SHOWN]:
        lines.append(queue_line(pool.gpu, await api.get(QueueOfGpu, "queue", pool.gpu)))
    await reply_with_lines(interaction, lines)


@app_commands.command(name="resync", description="Send all commands to Discord again")
async def resync(interaction: BotInteraction) -> None:
    """Sync the commands even if they did not change."""
    api = await defer_for_role(interaction, ADMIN)
    await record_access(interaction, api, "the commands", "synced on Discord")
    synced = await interaction.client.tree.sync(
        guild=discord.Object(interaction.client.settings.guild)
    )
    await reply(interaction, f"Discord knows {len(synced)} commands.")


COMMANDS: Commands = (
    *(start, stop, show_stats, health, resync),
    *(visibility, deadline, delete_leaderboard, export, set_forum_ids),
    *(get_submission, delete_submission),
)
