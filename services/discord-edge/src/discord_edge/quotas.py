"""The commands `/admin rate-limit` and `invites`: quotas and access to closed leaderboards."""

import re

import discord
from discord import app_commands

from discord_edge.bot.interactions import BotInteraction, Commands, reply
from discord_edge.bot.staff import (
    Named,
    Reason,
    complete_any_leaderboard,
    defer_for_role,
    find_participant_name,
    record_access,
    reply_with_lines,
)
from discord_edge.platform_api import PlatformApi
from discord_edge.problems.drafts import parse_closing_time
from discord_edge.wording import escaped
from shared.api.leaderboards import Invite, InviteCodes, Invites, LeaderboardSettings, RevokedInvite
from shared.clock import now
from shared.errors import Refused

WINDOWS_S = {"minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
QUOTAS_MAX = 10
_QUOTA = re.compile(
    r"(?:(?P<gpu>[A-Za-z0-9][A-Za-z0-9_-]{0,39})\.)?(?P<category>test|ranked)"
    r"=(?:(?P<none>none)|(?P<count>[0-9]{1,7})/(?P<window>minute|hour|day|week))\Z"
)
ADMIN = "admin"
CODES_MAX = 500
CODE_LENGTH_MAX = 100
Code = app_commands.Range[str, 1, CODE_LENGTH_MAX]
Count = app_commands.Range[int, 1, CODES_MAX]


def split_quotas(text: str) -> list[str]:
    """Split a comma-separated list of quotas. Raises `Refused` `bad_quota`.

    >>> split_quotas("ranked=10/day, test=none")
    ['ranked=10/day', 'test=none']
    """
    quotas = [quota.strip() for quota in text.split(",") if quota.strip()]
    if not 0 < len(quotas) <= QUOTAS_MAX:
        reason = f"expected 1 to {QUOTAS_MAX} quotas separated by commas, such as ranked=10/day"
        raise Refused("bad_quota", f"{reason}; got {len(quotas)}", "value")
    return quotas


def parse_quota(slug: str, text: str) -> dict[str, object]:
    """Parse one quota into the fields that the platform's API takes. Raises `Refused` `bad_quota`.

    >>> parse_quota("copy", "H100.ranked=2/hour")
    {'bucket': 'copy.H100.ranked', 'limit': 2, 'window_s': 3600}
    >>> parse_quota("copy", "test=none")["limit"]
    """
    match = _QUOTA.match(text)
    if match is None:
        reason = (
            f"{text[:60]!r} is not a quota: write ranked=10/day, H100.test=60/hour or test=none"
        )
        raise Refused("bad_quota", f"{reason}; the windows are {', '.join(WINDOWS_S)}", "value")
    return {
        "bucket": f"{slug}.{match['gpu'] or '*'}.{match['category']}",
        "limit": None if match["none"] else int(match["count"]),
        "window_s": WINDOWS_S[match["window"] or "day"],
    }


def _require_reason(reason: str | None) -> str:
    """Raise `Refused` for an action without a reason."""
    if reason is None:
        raise Refused("invalid_request", "give a `reason`", "reason")
    return reason


@app_commands.command(name="rate-limit", description="The quotas of a leaderboard")
@app_commands.describe(
    value="ranked=10/day, H100.test=60/hour or test=none; without it, the quotas are shown",
    user="Set them for this Discord user only; otherwise for everybody",
    participant="Set them for this participant only, by name on the platform",
)
@app_commands.autocomplete(leaderboard_name=complete_any_leaderboard)
async def rate_limit(  # noqa: PLR0913 - each is an option on Discord
    interaction: BotInteraction,
    leaderboard_name: Named,
    *,
    value: app_commands.Range[str, 1, 400] | None = None,
    reason: Reason | None = None,
    user: discord.User | None = None,
    participant: str | None = None,
) -> None:
    """Show or set the quotas for everybody, or set those of one participant."""
    api, slug = await defer_for_role(interaction, ADMIN), leaderboard_name.strip().lower()
    old = await _quotas_text(api, slug)
    if value is None:
        await reply(interaction, f"**{escaped(slug)}**: {old}.")
        return
    reason, new = _require_reason(reason), split_quotas(value)
    if user is not None or participant is not None:
        name = await find_participant_name(interaction, user, participant)
        parsed = [parse_quota(slug, quota) for quota in new]
        # The API takes quotas of future participants; here an unknown name is a typing error.
        await api.get(object, "admin", "participants", name)
        for quota in parsed:
            body = {**quota, "participant": name, "reason": reason}
            await api.request(object, "PUT", "admin", "quota", **body)
        text = f"**{escaped(slug)}**, for **{escaped(name)}** only: {escaped(', '.join(new))}."
        await reply(interaction, text)
        return
    path = ("admin", "leaderboards", slug)
    await api.request(object, "PUT", *path, quotas=new, reason=reason)
    await reply(interaction, f"**{escaped(slug)}**: {old} → {await _quotas_text(api, slug)}.")


async def _quotas_text(api: PlatformApi, slug: str) -> str:
    """Describe the current quotas for everybody. Raises `Refused` and `Failed`."""
    settings = await api.get(LeaderboardSettings, "leaderboards", slug)
    return escaped(", ".join(settings.quotas)) or "no limit"


@app_commands.command(name="invites", description="Invites to a closed leaderboard")
@app_commands.describe(
    count="The number of new invites; without it, existing ones are listed",
    until="YYYY-MM-DD HH:MM in UTC: when new ones expire",
    revoke="An invite to revoke",
)
@app_commands.autocomplete(leaderboard_name=complete_any_leaderboard)
async def invites(  # noqa: PLR0913 - each is an option on Discord
    interaction: BotInteraction,
    leaderboard_name: Named,
    *,
    count: Count | None = None,
    until: str | None = None,
    revoke: Code | None = None,
    reason: Reason | None = None,
) -> None:
    """List the invites of a leaderboard, create some, or revoke one."""
    api, slug = await defer_for_role(interaction, ADMIN), leaderboard_name.strip().lower()
    if count is not None and revoke is not None:
        raise Refused("invalid_request", "choose either `count` or `revoke`", "revoke")
    if count is not None:
        codes = await _create_invites(api, slug, count, until, _require_reason(reason))
        head = f"`{slug}`: each admits one participant with `/leaderboard join`."
        await reply_with_lines(interaction, [head, *(f"`{code}`" for code in codes)], "")
    elif revoke is not None:
        text = await _revoke_invite(api, slug, revoke.strip(), _require_reason(reason))
        await reply(interaction, text)
    else:
        await record_access(interaction, api, slug)
        lines = [_invite_line(invite) for invite in await _list_invites(api, slug)]
        await reply_with_lines(interaction, lines, f"`{slug}` has no invites.")


async def _list_invites(api: PlatformApi, slug: str) -> list[Invite]:
    return (await api.get(Invites, "admin", "leaderboards", slug, "invites")).items


async def _create_invites(
    api: PlatformApi, slug: str, count: int, until: str | None, reason: str
) -> list[str]:
    """Return the codes of new invites."""
    expires_at = None if until is None else parse_closing_time(until, now())
    body: dict[str, object] = {"leaderboards": [slug], "count": count, "reason": reason}
    body |= {} if expires_at is None else {"expires_at": expires_at.isoformat()}
    return (await api.request(InviteCodes, "POST", "admin", "invites", **body)).codes


async def _revoke_invite(api: PlatformApi, slug: str, code: str, reason: str) -> str:
    """Revoke an invite, and say so. Raises `Refused` if it belongs to another leaderboard."""
    if code not in {invite.code for invite in await _list_invites(api, slug)}:
        message = f"`{slug}` has no such invite: `/admin invites` without options lists them"
        raise Refused("unknown_invite", message, "revoke")
    invite = await api.request(RevokedInvite, "DELETE", "admin", "invites", code, reason=reason)
    suffix = ", and its participant is no longer a member" if invite.was_claimed else ""
    return f"`{code}` is revoked{suffix}."


def _invite_line(invite: Invite) -> str:
    claimant = escaped(str(invite.name or invite.participant_id))
    state = f"used by {claimant}" if invite.participant_id else "free"
    expiry = f" · valid until {invite.expires_at:%Y-%m-%dT%H:%M:%SZ}" if invite.expires_at else ""
    return f"`{invite.code}` · {state}{expiry}"


COMMANDS: Commands = (rate_limit, invites)
