"""`/admin rate-limit` and `invites`: how much one may send, and who comes in where not all may."""

from typing import Any

import discord
from discord import app_commands

from discord_edge.bot.asking import Here, say
from discord_edge.bot.staff import (
    LOOKED,
    Named,
    Reason,
    acted,
    any_board,
    begun,
    done,
    participant_of,
    told,
)
from discord_edge.domain import limits
from discord_edge.domain.publishing import ends_at
from discord_edge.domain.wording import escaped
from discord_edge.service.ports import User
from shared.clock import now
from shared.errors import Refused

ADMIN = "admin"
CODES_MAX = 500
CODE_LENGTH_MAX = 100
Code = app_commands.Range[str, 1, CODE_LENGTH_MAX]
Count = app_commands.Range[int, 1, CODES_MAX]


def _why(reason: str | None) -> str:
    """Errors: Refused where something is done without a reason."""
    if reason is None:
        raise Refused("invalid_request", "say in `reason` why", "reason")
    return reason


@app_commands.command(name="rate-limit", description="How much may be sent to a leaderboard")
@app_commands.describe(
    value="ranked=10/day, H100.test=60/hour or test=none; without it, what there is now",
    user="Who alone, on Discord; everybody if nobody is named",
    participant="Who alone, by their name on the platform",
)
@app_commands.autocomplete(leaderboard_name=any_board)
async def rate_limit(  # noqa: PLR0913 - each is an option on Discord
    here: Here,
    leaderboard_name: Named,
    *,
    value: app_commands.Range[str, 1, 400] | None = None,
    reason: Reason | None = None,
    user: discord.User | None = None,
    participant: str | None = None,
) -> None:
    """Show or set the quotas of everybody, or set those of one participant."""
    staff, slug = await begun(here, ADMIN), leaderboard_name.strip().lower()
    old = await _quotas(here, staff, slug)
    if value is None:
        await say(here, f"**{escaped(slug)}**: {old}.")
        return
    why, wanted = _why(reason), limits.quotas(value)
    if user is not None or participant is not None:
        name = await participant_of(here, user, participant)
        await _limit_one(here, staff, name, [limits.one_of(slug, one) for one in wanted], why)
        said = f"**{escaped(slug)}**, for **{escaped(name)}** alone: {escaped(', '.join(wanted))}."
        await say(here, said)
        return
    await done(here, staff, "PUT", "admin", "leaderboards", slug, quotas=wanted, reason=why)
    await say(here, f"**{escaped(slug)}**: {old} → {await _quotas(here, staff, slug)}.")


async def _quotas(here: Here, user: User, slug: str) -> str:
    """What everybody may send now, in words. Errors: Refused; Failed."""
    found = await here.client.api.get(user, "leaderboards", slug)
    return escaped(", ".join(found["quotas"])) or "no limit"


async def _limit_one(
    here: Here, user: User, name: str, wanted: list[dict[str, object]], reason: str
) -> None:
    # A quota may be given to who is yet to come; here that would be a slip of the pen.
    await here.client.api.get(user, "admin", "participants", name)
    for one in wanted:
        said = {**one, "participant": name, "reason": reason}
        await done(here, user, "PUT", "admin", "quota", **said)


@app_commands.command(name="invites", description="Codes that let one into a closed leaderboard")
@app_commands.describe(
    count="How many new ones to make; without it, those that there are",
    until="YYYY-MM-DD HH:MM in UTC: until when new ones are good",
    revoke="A code that is to let nobody in any more",
)
@app_commands.autocomplete(leaderboard_name=any_board)
async def invites(  # noqa: PLR0913 - each is an option on Discord
    here: Here,
    leaderboard_name: Named,
    *,
    count: Count | None = None,
    until: str | None = None,
    revoke: Code | None = None,
    reason: Reason | None = None,
) -> None:
    """List the codes of a leaderboard, make some, or revoke one."""
    user, slug = await begun(here, ADMIN), leaderboard_name.strip().lower()
    if count is not None and revoke is not None:
        raise Refused("invalid_request", "say one of `count` and `revoke`", "revoke")
    if count is not None:
        await _issue(here, user, slug, (count, until, _why(reason)))
    elif revoke is not None:
        await _revoke(here, user, slug, (revoke.strip(), _why(reason)))
    else:
        await acted(here, user, slug, LOOKED)
        items = (await here.client.api.get(user, "admin", "leaderboards", slug, "invites"))["items"]
        await told(here, [_invite(one) for one in items], f"`{slug}` has no invites.")


async def _issue(here: Here, user: User, slug: str, wanted: tuple[int, str | None, str]) -> None:
    count, until, reason = wanted
    ends = None if until is None else ends_at(until, now())
    said: dict[str, object] = {"leaderboards": [slug], "count": count, "reason": reason}
    said |= {} if ends is None else {"expires_at": ends.isoformat()}
    made = await done(here, user, "POST", "admin", "invites", **said)
    codes = [f"`{one}`" for one in made["codes"]]
    head = f"`{slug}`: each lets one participant in by `/leaderboard join`."
    await told(here, [head, *codes], "")


async def _revoke(here: Here, user: User, slug: str, wanted: tuple[str, str]) -> None:
    """Errors: Refused for a code of another leaderboard; Failed."""
    code, reason = wanted
    items = (await here.client.api.get(user, "admin", "leaderboards", slug, "invites"))["items"]
    if code not in {one["code"] for one in items}:
        what = f"`{slug}` has no such invite: `/admin invites` without options lists them"
        raise Refused("unknown_invite", what, "revoke")
    made = await done(here, user, "DELETE", "admin", "invites", code, reason=reason)
    used = ", and who used it is a member no longer" if made["was_claimed"] else ""
    await say(here, f"`{code}` lets nobody in any more{used}.")


def _invite(one: dict[str, Any]) -> str:
    who = f"used by {escaped(str(one['name'] or one['participant_id']))}"
    state = who if one["participant_id"] else "free"
    until = f" · good until {one['expires_at']}" if one["expires_at"] else ""
    return f"`{one['code']}` · {state}{until}"


COMMANDS: tuple[app_commands.Command[Any, ..., Any], ...] = (rate_limit, invites)
