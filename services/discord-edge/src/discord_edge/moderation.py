"""The commands of `/moderate`: decisions about submissions, appeals, rejudges and their audit."""

import asyncio
import time
from typing import Literal

from discord import app_commands

from discord_edge.bot.interactions import (
    ADMIN,
    AnyVisibleLeaderboard,
    BotInteraction,
    Commands,
    Confirmation,
    Identifier,
    Number,
    Reason,
    VisibleLeaderboard,
    defer,
    record_access,
    reply,
    reply_with_lines,
    run_decision,
)
from discord_edge.platform_api import PlatformApi
from discord_edge.wording import discord_time, escaped
from shared.api import moderation as api_models
from shared.api.problems import FullProblem
from shared.api.submissions import FullSubmission, TimelineEntry
from shared.errors import Refused
from shared.presentation.units import time_text

DATA_FIELDS = (
    *("rule", "visibility", "deadline_at", "gpus"),
    *("bucket", "limit", "code", "is_accepted"),
)
MAY = ("moderator", "admin")
# The runs of a rejudge may take longer than a command lives.
PREVIEW_S_MAX = 480.0
ASKED_S_MAX = 240.0
LOOK_S = 2.0
CHANGES_SHOWN = 15
OUTCOMES = {
    "hold": "is off its leaderboard until a moderator decides",
    "release": "is no longer held",
    "disqualify": "does not count",
    "restore": "counts again",
}
Rule = app_commands.Range[str, 1, 200]
# A page covers a stretch of the log, so the actions on one leaderboard may be pages apart.
PAGES_MAX, PAGE = 20, 200
ACTIONS_MAX = 200


def event_line(event: TimelineEntry) -> str:
    """Describe an event of a submission's history.

    >>> from datetime import datetime
    >>> at = datetime.fromisoformat("1970-01-01T00:01:40Z")
    >>> event_line(TimelineEntry(seq=7, type="JobQueued", at=at, note="", actor="ada", state=None))
    'event 7 · <t:100:f> · JobQueued · by ada'
    """
    return _event_head(event) + (f" · {escaped(event.note)}" if event.note else "")


def action_line(action: api_models.OperatorAct) -> str:
    """Describe an operator's action and its reason.

    >>> from datetime import datetime
    >>> action_line(api_models.OperatorAct(seq=9, type="LeaderboardChanged", actor="operator:ada",
    ...     at=datetime.fromisoformat("1970-01-01T00:01:40Z"), about="problem.copy",
    ...     reason="late", data={"visibility": "closed", "force": True}))
    'event 9 · <t:100:f> · LeaderboardChanged · by operator:ada · late (visibility closed)'
    """
    values = [(name, action.data.get(name)) for name in DATA_FIELDS]
    details = ", ".join(f"{name} {value}" for name, value in values if value not in (None, ""))
    suffix = f" ({escaped(details)})" if details else ""
    return f"{_event_head(action)} · {escaped(action.reason or 'no reason')}{suffix}"


def _event_head(event: TimelineEntry | api_models.OperatorAct) -> str:
    actor = escaped(event.actor or "an unnamed actor", 80)
    return f"event {event.seq} · {discord_time(event.at, 'f')} · {event.type} · by {actor}"


def standing_line(submission: FullSubmission) -> str:
    """Describe a submission's rank, or why it has none."""
    problem, gpu = escaped(submission.problem), escaped(submission.gpu)
    head = f"**#{submission.number}** {problem} · {gpu} · {submission.state}"
    ranking = submission.ranking
    if ranking is None:
        return f"{head} · on no leaderboard"
    if ranking.rank:
        return f"{head} · rank {ranking.rank}"
    reason = ranking.reason or ranking.code or "no reason was recorded"
    return f"{head} · not ranked: {escaped(reason)}"


async def _decide(interaction: BotInteraction, decision: str, number: int, **body: str) -> None:
    api = await defer(interaction, *MAY)
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


@app_commands.command()
async def restore(interaction: BotInteraction, submission: Number, reason: Reason) -> None:
    """Let a disqualified submission count again"""
    await _decide(interaction, "restore", submission, reason=reason)


@app_commands.command()
async def appeals(interaction: BotInteraction) -> None:
    """Held submissions and open appeals"""
    api = await defer(interaction, *MAY)
    cases = await api.get(api_models.Moderation, "moderation", open="true")
    lines = [_case_line(case) for case in cases.items]
    await reply_with_lines(interaction, lines, "No submission needs a decision.")


def _case_line(case: api_models.Decision) -> str:
    reason = escaped(case.reason or case.end_reason or case.rule or "")
    appeal = f" · appeal: {escaped(case.appeal_text or '')}" if case.appeal == "filed" else ""
    participant = escaped(case.participant or "nobody")
    submission = f"**#{case.number}** {escaped(case.problem)} · {case.gpu}"
    return f"{submission} · {participant} · {reason}{appeal}"


@app_commands.command(name="decide-appeal")
async def decide_appeal(
    interaction: BotInteraction,
    submission: Number,
    decision: Literal["accept", "reject"],
    reason: Reason,
) -> None:
    """Answer an appeal"""
    api, path = await defer(interaction, *MAY), ("admin", "submissions", submission)
    body = {"is_accepted": decision == "accept", "reason": reason}
    note = await run_decision(api, *path, "decide-appeal", **body)
    await reply(interaction, f"The appeal of **#{submission}** is {decision}ed.{note}")


@app_commands.command()
@app_commands.describe(version="The version to judge by; by default the newest")
async def rejudge(
    interaction: BotInteraction,
    leaderboard_name: AnyVisibleLeaderboard,
    select: Literal["best", "all"],
    reason: Reason,
    version: Number | None = None,
) -> None:
    """Run submissions again under another version"""
    api = await defer(interaction, ADMIN)
    body: dict[str, object] = {"problem": leaderboard_name, "select": select, "reason": reason}
    body |= {"to_version": version} if version else {}
    rejudge = await api.request(api_models.RequestedRejudge, "POST", "admin", "rejudges", **body)
    await reply(interaction, f"Rejudge `{rejudge.id}`: {rejudge.count} submissions run again …")
    await _settle(interaction, api, rejudge.id, reason)


@app_commands.command(name="settle-rejudge")
@app_commands.describe(rejudge_id="The id that `/moderate rejudge` showed")
async def settle(interaction: BotInteraction, rejudge_id: Identifier, reason: Reason) -> None:
    """Apply or discard a rejudge"""
    await _settle(interaction, await defer(interaction, ADMIN), rejudge_id.strip(), reason)


async def _settle(
    interaction: BotInteraction, api: PlatformApi, identity: str, reason: str
) -> None:
    """Wait for the preview of a rejudge, show it, and apply or discard the rejudge."""
    until = time.monotonic() + PREVIEW_S_MAX
    path = ("admin", "rejudges", identity)
    while (rejudge := await api.get(api_models.FullRejudge, *path)).state == "running":
        if time.monotonic() > until:
            progress = f"{rejudge.judged} of {rejudge.count} are judged"
            text = f"{progress}. Use `/moderate settle-rejudge` with `{identity}` later."
            await reply(interaction, text)
            return
        await asyncio.sleep(LOOK_S)
    if rejudge.state != "previewed":
        message = f"rejudge {identity} is already {rejudge.state}"
        raise Refused("wrong_state", message, "rejudge_id")
    question = "\n".join([f"Rejudge `{identity}`:", *_change_lines(rejudge)])
    is_applied = await Confirmation(interaction, "Apply", "Discard", ASKED_S_MAX).ask(question)
    if is_applied is None:
        text = f"No answer; use `/moderate settle-rejudge` with `{identity}` to decide later."
        await reply(interaction, text)
        return
    await run_decision(api, *path, "apply" if is_applied else "discard", reason=reason)
    outcome = "applied: it counts now" if is_applied else "discarded: nothing changed"
    await reply(interaction, f"Rejudge `{identity}` is {outcome}.")


def _change_lines(rejudge: api_models.FullRejudge) -> list[str]:
    preview = rejudge.preview or api_models.Preview(items=[], moves=[], changed_count=0)
    changed = [item for item in preview.items if item.changed]
    lines = [f"{preview.changed_count} of {len(preview.items)} would change. Apply it?"]
    for item in changed[:CHANGES_SHOWN]:
        old, new = (f"{it.verdict} {time_text(it.score_us)}" for it in (item.old, item.new))
        lines.append(f"**#{item.number}** {item.gpu}: {old} → {new}")
    more = len(changed) - CHANGES_SHOWN
    return [*lines, f"… {more} more"] if more > 0 else lines


@app_commands.command()
@app_commands.describe(
    submission="Show its history and its rank, or why it has none",
    leaderboard_name="Show the operators' actions on a leaderboard",
)
async def audit(
    interaction: BotInteraction,
    submission: Number | None = None,
    leaderboard_name: VisibleLeaderboard | None = None,
) -> None:
    """Which events explain a submission or leaderboard"""
    api = await defer(interaction, *MAY)
    if submission is not None and leaderboard_name is None:
        await record_access(interaction, api, f"submission {submission}")
        history = await api.get(FullSubmission, "submissions", submission)
        events = map(event_line, history.timeline)
        await reply_with_lines(interaction, [standing_line(history), *events])
    elif submission is None and leaderboard_name is not None:
        await api.get(FullProblem, "problems", leaderboard_name)
        await record_access(interaction, api, leaderboard_name)
        lines = [action_line(action) for action in await _list_actions(api, leaderboard_name)]
        nothing = f"The searched part of the log has no operator's action on `{leaderboard_name}`."
        await reply_with_lines(interaction, lines, nothing)
    else:
        reason = "choose either `submission` or `leaderboard_name`"
        raise Refused("invalid_request", reason, "submission")


async def _list_actions(api: PlatformApi, slug: str) -> list[api_models.OperatorAct]:
    actions: list[api_models.OperatorAct] = []
    query: dict[str, str | int] = {"limit": PAGE}
    for _ in range(PAGES_MAX):
        page = await api.get(api_models.OperatorActs, "admin", "audit", **query)
        actions += [action for action in page.items if _concerns_leaderboard(action, slug)]
        if page.next_before is None or len(actions) >= ACTIONS_MAX:
            break
        query["before"] = page.next_before
    return actions[:ACTIONS_MAX]


def _concerns_leaderboard(action: api_models.OperatorAct, slug: str) -> bool:
    """Whether an action is about the leaderboard, or names it."""
    data = action.data
    is_quota = str(data.get("bucket", "")).startswith(f"{slug}.")
    is_named = data.get("target") == slug or slug in (data.get("problems") or ())
    return action.about == f"problem.{slug}" or is_quota or is_named


COMMANDS: Commands = (
    *(hold, release, disqualify, restore),
    *(appeals, decide_appeal, rejudge, settle, audit),
)
