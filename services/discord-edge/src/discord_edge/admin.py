"""The commands of `/admin` and `/agents` about the platform, its leaderboards and its agents."""

import json
import re
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlencode

import discord
import msgspec
from discord import app_commands

from discord_edge.bot.discord_py import build_embed, discord_file
from discord_edge.bot.interactions import (
    ADMIN,
    AnyVisibleLeaderboard,
    BotInteraction,
    Commands,
    CompletedName,
    Confirmation,
    Gpus,
    Number,
    Reason,
    VisibleLeaderboard,
    defer,
    match_gpus,
    record_access,
    reply,
    reply_with_card,
    reply_with_lines,
    run_decision,
)
from discord_edge.leaderboards.tables import queue_line
from discord_edge.moderation import event_line
from discord_edge.notifications.texts import match_line
from discord_edge.problems.drafts import parse_closing_time
from discord_edge.problems.publishing import confirm_archive
from discord_edge.submissions.report import report_card
from discord_edge.wording import CHOICES_MAX, Attachment, escaped, match_names
from shared.api.agents import Agent, Agents
from shared.api.leaderboards import LeaderboardSettings
from shared.api.queues import DeadLetters, IntakeStatus, Job, Launcher, QueueOfGpu, Queues
from shared.api.submissions import FullSubmission
from shared.clock import now
from shared.errors import Failed, Refused
from shared.presentation.report_parts import launcher_usage, list_launchers

SUFFIX = ".parquet"
# Discord may take more, but the whole file is held in memory.
BYTES_MAX = 100 * 1024 * 1024
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}\Z")
TOO_LARGE = "too_large"
KEEP_S = 30.0
POOLS_SHOWN, JOBS_SHOWN = 25, 10


@app_commands.command()
@app_commands.describe(
    filename="The name of the file; by default the leaderboard's name",
    private="Export everything, for you only; otherwise only what is public",
)
async def export(
    interaction: BotInteraction,
    leaderboard_name: VisibleLeaderboard,
    filename: str | None = None,
    private: bool = True,
) -> None:
    """All of a leaderboard's submissions, as a file"""
    api = await defer(interaction, ADMIN)
    name = (filename or leaderboard_name).strip().removesuffix(SUFFIX)
    if not NAME.match(name):
        reason = f"{name[:40]!r} is not a file name: use 1 to 100 letters, digits, dots, _ and -"
        raise Refused("invalid_request", reason, "filename")
    boards = await api.get_file("/leaderboards?state=all")
    try:
        ids = {str(board["name"]): int(board["id"]) for board in json.loads(boards)}
    except (ValueError, TypeError, KeyError) as error:
        raise Failed("the platform's list of leaderboards cannot be read") from error
    if leaderboard_name not in ids:
        reason = f"there is no leaderboard {leaderboard_name!r}: see `/leaderboard list` with state"
        raise Refused("unknown_problem", f"{reason} all", "leaderboard_name")
    body = {"leaderboard_ids": [ids[leaderboard_name]], "private": private}
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
    text = f"`{leaderboard_name}`, {content}: {len(data):,} bytes."
    file = discord_file(name + SUFFIX, data)
    await interaction.edit_original_response(content=text, attachments=[file])


@app_commands.command(name="set-forum-ids")
@app_commands.describe(dry_run="Only show what would be paired")
async def set_forum_ids(interaction: BotInteraction, dry_run: bool = True) -> None:
    """Pair the forum's posts with problems"""
    api = await defer(interaction, ADMIN)
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
    api = await defer(interaction, ADMIN)
    note = await run_decision(api, "admin", "intake", action, reason=reason)
    await reply(interaction, text + note)


@app_commands.command()
async def start(interaction: BotInteraction, reason: Reason) -> None:
    """Accept submissions again"""
    await _switch_intake(interaction, "resume", reason, "Submissions are accepted.")


@app_commands.command()
async def stop(interaction: BotInteraction, reason: Reason) -> None:
    """Accept no submissions; running ones continue"""
    text = "No submissions are accepted until `/admin start`."
    await _switch_intake(interaction, "pause", reason, text)


async def _change_leaderboard(interaction: BotInteraction, slug: str, **changes: object) -> None:
    api, path = await defer(interaction, ADMIN), ("leaderboards", slug)
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


@app_commands.command()
async def visibility(
    interaction: BotInteraction,
    leaderboard_name: VisibleLeaderboard,
    value: Literal["public", "closed"],
    reason: Reason,
) -> None:
    """Who sees a leaderboard"""
    await _change_leaderboard(interaction, leaderboard_name, visibility=value, reason=reason)


@app_commands.command()
@app_commands.describe(value="YYYY-MM-DD HH:MM in UTC, or none")
async def deadline(
    interaction: BotInteraction, leaderboard_name: VisibleLeaderboard, value: str, reason: Reason
) -> None:
    """When a leaderboard closes"""
    ends_at = parse_closing_time(value, now())
    at = None if ends_at is None else ends_at.isoformat()
    await _change_leaderboard(interaction, leaderboard_name, deadline_at=at, reason=reason)


@app_commands.command(name="delete-leaderboard")
@app_commands.describe(force="Archive it even if it has entries")
async def delete_leaderboard(
    interaction: BotInteraction, leaderboard_name: VisibleLeaderboard, force: bool = False
) -> None:
    """Archive any leaderboard"""
    await confirm_archive(interaction, leaderboard_name, ADMIN, is_forced=force)


@app_commands.command(name="delete-submission")
async def delete_submission(
    interaction: BotInteraction, submission: Number, reason: Reason
) -> None:
    """Withdraw a submission for ever"""
    api, path = await defer(interaction, ADMIN), ("submissions", submission)
    card = report_card(await api.get(FullSubmission, *path))
    question = "Remove this from its leaderboard for ever? Its history stays."
    confirmation = Confirmation(interaction, "Delete", "Keep", KEEP_S)
    if not await confirmation.ask(question, build_embed(card)):
        await reply(interaction, f"Submission **#{submission}** is kept.")
        return
    await api.request(object, "DELETE", *path, reason=reason)
    await reply(interaction, f"Submission **#{submission}** was removed from its leaderboard.")


@app_commands.command(name="get-submission")
async def get_submission(interaction: BotInteraction, submission_id: Number) -> None:
    """Any submission, with its runs and history"""
    api = await defer(interaction, ADMIN)
    await record_access(interaction, api, f"submission {submission_id}")
    submission = await api.get(FullSubmission, "submissions", submission_id, source="true")
    runs = msgspec.structs.replace(submission, source=None, timeline=[])
    files = {
        submission.name: (submission.source or "").encode(),
        "runs.json": msgspec.json.format(msgspec.json.encode(runs), indent=1),
        "history.txt": "\n".join(map(event_line, submission.timeline)).encode(),
    }
    card = report_card(submission)
    attachments = [Attachment(name, data) for name, data in files.items() if data]
    participant = escaped(submission.participant or "nobody")
    content = f"By **{participant}**, {submission.state}."
    await reply_with_card(interaction, replace(card, files=(*card.files, *attachments)), content)


@app_commands.command(name="show-stats")
async def show_stats(
    interaction: BotInteraction,
    last_day_only: bool,
    leaderboard_name: AnyVisibleLeaderboard | None = None,
) -> None:
    """Statistics of the platform"""
    api = await defer(interaction, ADMIN)
    await record_access(interaction, api, leaderboard_name or "all leaderboards")
    query = {"last_day_only": str(last_day_only).lower()}
    query |= {"leaderboard_name": leaderboard_name} if leaderboard_name else {}
    data = await api.get_file(f"/admin/stats?{urlencode(query)}")
    stats: dict[str, Any] = json.loads(data)["stats"]
    lines = [f"{escaped(name)}: {value:g}" for name, value in stats.items() if value is not None]
    await reply_with_lines(interaction, lines, "There are no statistics.")


@app_commands.command()
async def health(interaction: BotInteraction) -> None:
    """The health of the platform"""
    api = await defer(interaction, ADMIN)
    await record_access(interaction, api, "the platform")
    try:
        await interaction.client.api.get_file("/health")
        storage = "healthy"
    except (Refused, Failed) as error:
        storage = escaped(str(error))
    paused = (await api.get(IntakeStatus, "intake")).paused
    queues = await api.get(Queues, "queue")
    parked = queues.parked
    progress = f"stopped before event {parked.seq}" if parked else f"event {queues.as_of}"
    dead_letters = (await api.get(DeadLetters, "admin", "deadletters")).items
    lines = [
        f"log and database: {storage}",
        f"intake: {'stopped: ' + escaped(paused) if paused else 'open'}",
        f"read models: {progress}",
        f"dead letters: {len(dead_letters)}",
    ]
    lines += [
        queue_line(pool.gpu, await api.get(QueueOfGpu, "queue", pool.gpu))
        for pool in queues.pools[:POOLS_SHOWN]
    ]
    await reply_with_lines(interaction, lines)


@app_commands.command()
async def resync(interaction: BotInteraction) -> None:
    """Send all commands to Discord again"""
    api = await defer(interaction, ADMIN)
    await record_access(interaction, api, "the commands", "synced on Discord")
    guild = discord.Object(interaction.client.settings.guild)
    synced = await interaction.client.tree.sync(guild=guild)
    await reply(interaction, f"Discord knows {len(synced)} commands.")


async def _match_agents(interaction: BotInteraction, typed: str) -> list[str]:
    agents = await interaction.client.cache.get(None, Agents, "agents")
    return match_names(typed, [agent.id for agent in agents.items] if agents else [])


AgentId = app_commands.Transform[str, CompletedName(_match_agents, length_max=64)]
GpuId = app_commands.Transform[str, CompletedName(match_gpus, length_max=64)]


@app_commands.command(name="list")
async def list_agents(interaction: BotInteraction) -> None:
    """All agents and their states"""
    api = await defer(interaction, ADMIN)
    agents = (await api.get(Agents, "admin", "agents")).items
    await reply_with_lines(interaction, [*map(_agent_line, agents)], "No agent ever registered.")


def _agent_line(agent: Agent) -> str:
    state = "free" if agent.is_free else "busy" if agent.is_alive else "offline"
    reason = agent.standing_reason
    standing = agent.standing + (f": {escaped(str(reason))}" if reason else "")
    details = f"{escaped(agent.gpu)} · {state} · {standing}"
    return f"**{escaped(agent.id)}** · {details} · {agent.level}, {agent.tier}"


async def _command_agent(
    interaction: BotInteraction, agent: str, command: str, reason: str, text: str
) -> None:
    api = await defer(interaction, ADMIN)
    note = await run_decision(api, "admin", "agents", agent.strip(), command, reason=reason)
    await reply(interaction, f"Agent **{escaped(agent)}** {text}.{note}")


@app_commands.command()
async def drain(interaction: BotInteraction, agent: AgentId, reason: Reason) -> None:
    """Give an agent no new jobs"""
    await _command_agent(interaction, agent, "drain", reason, "gets no new jobs")


@app_commands.command()
async def undrain(interaction: BotInteraction, agent: AgentId, reason: Reason) -> None:
    """Let an agent work again"""
    await _command_agent(interaction, agent, "release", reason, "works again")


@app_commands.command()
async def quarantine(interaction: BotInteraction, agent: AgentId, reason: Reason) -> None:
    """Give an agent nothing until it is released"""
    await _command_agent(interaction, agent, "quarantine", reason, "is in quarantine")


@app_commands.command()
@app_commands.describe(
    submission="A ranked submission that passed",
    every_s="The interval in seconds",
    ratio_max="How many times slower an agent may be",
)
async def canary(
    interaction: BotInteraction,
    gpu: GpuId,
    submission: Number,
    every_s: app_commands.Range[int, 10, 30 * 86400] = 3600,
    ratio_max: app_commands.Range[float, 1.001, 100.0] = 1.2,
) -> None:
    """Run a submission on every agent, repeatedly"""
    api = await defer(interaction, ADMIN)
    body = {"submission": submission, "every_s": float(every_s), "ratio_max": ratio_max}
    await api.request(object, "PUT", "admin", "pools", gpu, "canary", **body)
    agents = f"every agent with {escaped(gpu)}"
    await reply(interaction, f"**#{submission}** runs on {agents}, every {every_s} s.")


@app_commands.command()
async def queue(interaction: BotInteraction, gpu: Gpus | None = None) -> None:
    """The queue of each GPU type"""
    api = await defer(interaction, ADMIN)
    pools = (await api.get(Queues, "queue")).pools
    if gpu is not None:
        pools = [pool for pool in pools if pool.gpu.lower() == gpu.lower()]
    lines = []
    for pool in pools[:CHOICES_MAX]:
        lines.append(queue_line(pool.gpu, await api.get(QueueOfGpu, "queue", pool.gpu)))
        lines += [_job_line(job) for job in pool.forecast[:JOBS_SHOWN]]
    await reply_with_lines(interaction, lines, "No jobs are waiting, and no agents are working.")


def _job_line(job: Job) -> str:
    number = f"#{job.number}" if job.number else "another participant's"
    wait = "" if job.eta_s is None else f", in about {job.eta_s:.0f} s"
    reason = f" ({escaped(str(job.why))})" if job.why else ""
    queue_class = f" · {job.queue_class}" if job.queue_class else ""
    return f"{job.position}. {number}{queue_class}{wait}{reason}"


@app_commands.command()
async def launchers(interaction: BotInteraction) -> None:
    """What starts agents on demand, how many run, and their cost"""
    api = await defer(interaction, ADMIN)
    pools = (await api.get(Queues, "queue")).pools
    lines = [_launcher_line(launcher, gpus) for launcher, gpus in list_launchers(pools)]
    await reply_with_lines(interaction, lines, "No launcher ever registered.")


def _launcher_line(launcher: Launcher, gpus: list[str]) -> str:
    agents, cost = launcher_usage(launcher)
    details = f"{escaped(launcher.kind)} · {escaped(', '.join(gpus))}"
    return f"**{escaped(launcher.name)}** · {details} · {agents} agents · cost today {cost}"


COMMANDS: Commands = (
    *(start, stop, show_stats, health, resync),
    *(visibility, deadline, delete_leaderboard, export, set_forum_ids),
    *(get_submission, delete_submission),
)
AGENT_COMMANDS: Commands = (list_agents, drain, undrain, quarantine, canary, queue, launchers)
