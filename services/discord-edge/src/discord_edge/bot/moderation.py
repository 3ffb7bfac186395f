"""`/moderate …`: what counts and what does not, decided with a reason."""

import asyncio
import time
from typing import Any, Literal

from discord import app_commands

from discord_edge.bot import auditing
from discord_edge.bot.asking import Here, say
from discord_edge.bot.staff import (
    Number,
    Question,
    Reason,
    any_board,
    begun,
    decided,
    done,
    hidden,
    told,
)
from discord_edge.domain.wording import escaped
from discord_edge.service.ports import User
from shared.errors import Refused
from shared.telling.answers import Answer
from shared.telling.units import time_text

MAY = ("moderator", "admin")
# A rejudge is an admin's to begin; its runs may take longer than a command lives.
ADMIN = "admin"
PREVIEW_S_MAX = 480.0
ASKED_S_MAX = 240.0
LOOK_S = 2.0
CHANGES_SHOWN = 15
WORDS = {
    "hold": "is off its leaderboard until somebody decides",
    "release": "is no longer held",
    "disqualify": "does not count",
    "restore": "counts again",
}
Rule = app_commands.Range[str, 1, 200]
Id = app_commands.Range[str, 1, 64]


class Moderation(app_commands.Group):
    """The commands of moderators, hidden from who does not run the server."""

    def __init__(self) -> None:
        about = "Decide what counts"
        super().__init__(
            name="moderate", description=about, guild_only=True, default_permissions=hidden()
        )
        for one in COMMANDS:
            self.add_command(one)


async def _judged(here: Here, act: str, number: int, said: dict[str, str]) -> None:
    user = await begun(here, *MAY)
    again = await decided(here, user, ("admin", "submissions", number, act), **said)
    await say(here, f"Submission **#{number}** {WORDS[act]}.{again}")


@app_commands.command(name="hold", description="Keep a submission off until somebody decides")
@app_commands.describe(rule="By which rule")
async def hold(here: Here, submission: Number, rule: Rule, reason: Reason) -> None:
    """Hold one."""
    await _judged(here, "hold", submission, {"rule": rule, "reason": reason})


@app_commands.command(name="release", description="Let a held submission count")
async def release(here: Here, submission: Number, reason: Reason) -> None:
    """End a hold."""
    await _judged(here, "release", submission, {"reason": reason})


@app_commands.command(name="disqualify", description="Let a submission count no longer")
@app_commands.describe(rule="By which rule")
async def disqualify(here: Here, submission: Number, rule: Rule, reason: Reason) -> None:
    """Disqualify one."""
    await _judged(here, "disqualify", submission, {"rule": rule, "reason": reason})


@app_commands.command(name="restore", description="Let a disqualified submission count again")
async def restore(here: Here, submission: Number, reason: Reason) -> None:
    """Undo a disqualification."""
    await _judged(here, "restore", submission, {"reason": reason})


@app_commands.command(name="appeals", description="What waits for a decision")
async def appeals(here: Here) -> None:
    """What is held, and what somebody says against a decision."""
    user = await begun(here, *MAY)
    found = await here.client.api.get(user, "moderation", open="true")
    await told(here, [_waiting(one) for one in found["items"]], "Nothing waits for a decision.")


def _waiting(one: dict[str, Any]) -> str:
    why = escaped(str(one["reason"] or one["end_reason"] or one["rule"] or ""))
    plea = f" · says: {escaped(str(one['appeal_text']))}" if one["appeal"] == "filed" else ""
    who = escaped(str(one["participant"] or "nobody"))
    return f"**#{one['number']}** {escaped(one['problem'])} · {one['gpu']} · {who} · {why}{plea}"


@app_commands.command(name="decide-appeal", description="Answer an appeal")
async def decide_appeal(
    here: Here, submission: Number, decision: Literal["accept", "reject"], reason: Reason
) -> None:
    """Accept one, which lifts what it is against, or reject it."""
    user, is_accepted = await begun(here, *MAY), decision == "accept"
    path = ("admin", "submissions", submission, "decide-appeal")
    again = await decided(here, user, path, is_accepted=is_accepted, reason=reason)
    await say(here, f"The appeal of **#{submission}** is {decision}ed.{again}")


@app_commands.command(name="rejudge", description="Run submissions again under another version")
@app_commands.describe(version="The version to judge by; the newest if it is not said")
@app_commands.autocomplete(leaderboard_name=any_board)
async def rejudge(
    here: Here,
    leaderboard_name: str,
    select: Literal["best", "all"],
    reason: Reason,
    version: Number | None = None,
) -> None:
    """Begin one; show what it would change, and ask."""
    user = await begun(here, ADMIN)
    said: dict[str, object] = {"problem": leaderboard_name, "select": select, "reason": reason}
    said |= {"to_version": version} if version else {}
    made = await done(here, user, "POST", "admin", "rejudges", **said)
    await say(here, f"Rejudge `{made['id']}`: {made['count']} submissions run again …")
    await _settle(here, user, str(made["id"]), reason)


@app_commands.command(name="settle-rejudge", description="Apply or discard a rejudge")
@app_commands.describe(rejudge_id="As `/moderate rejudge` said it")
async def settle(here: Here, rejudge_id: Id, reason: Reason) -> None:
    """Take one up that began before."""
    await _settle(here, await begun(here, ADMIN), rejudge_id.strip(), reason)


async def _settle(here: Here, user: User, identity: str, reason: str) -> None:
    """Wait for what would change, show it, and do what is said. Errors: Refused; Failed."""
    found = await _previewed(here, user, identity)
    if found["state"] == "running":
        said = f"{found['judged']} of {found['count']} are judged. `/moderate settle-rejudge` with"
        await say(here, f"{said} `{identity}` shows later what would change.")
        return
    if found["state"] != "previewed":
        what = f"rejudge {identity} is {found['state']} already"
        raise Refused("wrong_state", what, "rejudge_id")
    view = Question(here.user.id, "Apply", "Discard", ASKED_S_MAX)
    lines = [f"Rejudge `{identity}`:", *_changes(found)]
    await here.edit_original_response(content="\n".join(lines), view=view)
    act = "apply" if await view.answered() else "discard"
    if act == "discard" and view.is_late:
        await say(
            here, f"Nothing was said; `/moderate settle-rejudge` with `{identity}` asks again."
        )
        return
    await decided(here, user, ("admin", "rejudges", identity, act), reason=reason)
    what = "applied: it counts now" if act == "apply" else "discarded: all stays as it was"
    await say(here, f"Rejudge `{identity}` is {what}.")


async def _previewed(here: Here, user: User, identity: str) -> Answer:
    until = time.monotonic() + PREVIEW_S_MAX
    while True:
        found = await here.client.api.get(user, "admin", "rejudges", identity)
        if found["state"] != "running" or time.monotonic() > until:
            return found
        await asyncio.sleep(LOOK_S)


def _changes(found: Answer) -> list[str]:
    """What would change, the first of it."""
    preview = found["preview"] or {"items": [], "changed_count": 0}
    items = [one for one in preview["items"] if one["changed"]]
    lines = [f"{preview['changed_count']} of {len(preview['items'])} would change. Apply it?"]
    for one in items[:CHANGES_SHOWN]:
        old, new = one["old"], one["new"]
        lines.append(
            f"**#{one['number']}** {one['gpu']}: {old['verdict']} {time_text(old['score_us'])} → "
            f"{new['verdict']} {time_text(new['score_us'])}"
        )
    more = len(items) - CHANGES_SHOWN
    return [*lines, f"… {more} more"] if more > 0 else lines


COMMANDS: tuple[app_commands.Command[Any, ..., Any], ...] = (
    *(hold, release, disqualify, restore),
    *(appeals, decide_appeal, rejudge, settle),
    *auditing.COMMANDS,
)
