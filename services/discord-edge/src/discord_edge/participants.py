"""The commands of `/admin` about participants: bans, names, quotas and invites."""

import json
import re
from datetime import UTC
from typing import Any

import discord
from discord import app_commands

from discord_edge.bot.interactions import BotInteraction, Commands, reply
from discord_edge.bot.messages import discord_file
from discord_edge.bot.staff import (
    ADMIN,
    Named,
    Reason,
    complete_any_leaderboard,
    defer_for_role,
    find_participant_name,
    read_attachment,
    record_access,
    reply_with_lines,
    run_decision,
)
from discord_edge.platform_api import PlatformApi
from discord_edge.problems.drafts import deadline_text, parse_closing_time
from discord_edge.wording import escaped
from shared.api.accounts import ParticipantNames
from shared.api.leaderboards import Invite, InviteCodes, Invites, LeaderboardSettings, RevokedInvite
from shared.clock import now
from shared.errors import Failed, Refused

FILE_BYTES_MAX = 256 * 1024
NAMES_MAX = 200
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
FORM = 'a JSON object such as {"<id>": "<name>"}, as `/admin get-user-names` returns it'
PAGES_MAX = 50
WINDOWS_S = {"minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
QUOTAS_MAX = 10
_QUOTA = re.compile(
    r"(?:(?P<gpu>[A-Za-z0-9][A-Za-z0-9_-]{0,39})\.)?(?P<category>test|ranked)"
    r"=(?:(?P<none>none)|(?P<count>[0-9]{1,7})/(?P<window>minute|hour|day|week))\Z"
)
CODES_MAX = 500
CODE_LENGTH_MAX = 100
Code = app_commands.Range[str, 1, CODE_LENGTH_MAX]
Count = app_commands.Range[int, 1, CODES_MAX]


def read_name_changes(data: bytes, current_names: dict[str, str]) -> dict[str, str]:
    """Return the names that a file changes, by participant id. Raises `Refused` `bad_file`.

    >>> read_name_changes(b'{"1": "ada", "2": "bob"}', {"1": "ada", "2": "eve"})
    {'2': 'bob'}
    """
    names = _read_object(data)
    changes = {
        identity: name for identity, name in names.items() if current_names.get(identity) != name
    }
    unknown = [identity for identity in changes if identity not in current_names]
    if unknown:
        raise _bad_file(f"{unknown[0][:60]!r} is not the id of a participant; nothing was changed")
    for identity, name in changes.items():
        if not isinstance(name, str) or not NAME.match(name):
            reason = f"{str(name)[:60]!r} is not a valid name for {identity}: use 1 to 32 of"
            raise _bad_file(f"{reason} a-z 0-9 _ -, first a letter or digit; nothing was changed")
    if len(changes) > NAMES_MAX:
        raise _bad_file(f"{len(changes)} names would change; the limit is {NAMES_MAX} per file")
    return changes


def _read_object(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _bad_file(f"the file is not JSON: attach {FORM}") from error
    if not isinstance(content, dict):
        raise _bad_file(f"the file is not a JSON object: attach {FORM}")
    return content


def _bad_file(reason: str) -> Refused:
    return Refused("bad_file", reason, "attachment")


@app_commands.command(name="get-user-names", description="The participants' names by id")
async def get_user_names(interaction: BotInteraction) -> None:
    """Send a file with every participant's id and name."""
    api = await defer_for_role(interaction, ADMIN)
    await record_access(interaction, api, "all participants")
    names = await _read_names(api)
    file = discord_file("names.json", json.dumps(names, indent=1).encode())
    text = f"{len(names)} participants: change names in the file for `/admin update-user-names`."
    await interaction.edit_original_response(content=text, attachments=[file])


@app_commands.command(name="update-user-names", description="Rename participants")
@app_commands.describe(attachment="The .json file of get-user-names, with changed names")
async def update_user_names(
    interaction: BotInteraction, attachment: discord.Attachment, reason: Reason
) -> None:
    """Rename the participants whose names differ in a file; old names keep leading to them."""
    api = await defer_for_role(interaction, ADMIN)
    if attachment.size > FILE_BYTES_MAX or not attachment.filename.endswith(".json"):
        message = f"attach a .json file of at most {FILE_BYTES_MAX:,} bytes"
        raise Refused("bad_file", message, "attachment")
    names = await _read_names(api)
    data = await read_attachment(attachment, "attachment")
    changes = read_name_changes(data, names)
    if not changes:
        await reply(interaction, "The file changes no names.")
        return
    lines = [
        await _rename(api, names[identity], name, reason) for identity, name in changes.items()
    ]
    await reply_with_lines(interaction, lines)


async def _rename(api: PlatformApi, old: str, new: str, reason: str) -> str:
    """Rename a participant, and return a line with the result; errors stop no other renames."""
    try:
        path = ("admin", "participants", old, "name")
        await api.request(object, "PUT", *path, name=new, reason=reason)
    except Refused as refused:
        return f"❌ {escaped(old)}: {escaped(refused.reason)}"
    except Failed:
        return f"❌ {escaped(old)}: no answer; send the same file again"
    return f"✅ {escaped(old)} → **{escaped(new)}**"


async def _read_names(api: PlatformApi) -> dict[str, str]:
    """Return the participants' names by id. Raises `Refused` and `Failed`."""
    names: dict[str, str] = {}
    after = ""
    for _ in range(PAGES_MAX):
        page = await api.get(ParticipantNames, "admin", "participants", after=after)
        names |= {participant.participant_id: participant.name for participant in page.items}
        if page.next_after is None:
            break
        after = page.next_after
    return names


@app_commands.command(name="ban", description="Ban a participant")
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
    """Ban a participant from the platform."""
    api = await defer_for_role(interaction, ADMIN)
    ends_at = None if until is None else parse_closing_time(until, now())
    name = await find_participant_name(interaction, user, participant)
    body = {"reason": reason}
    if ends_at:
        body["until_at"] = ends_at.astimezone(UTC).isoformat()
    note = await run_decision(api, "admin", "participants", name, "ban", **body)
    duration = f"until {deadline_text(ends_at)}" if ends_at else "permanently"
    await reply(interaction, f"**{escaped(name)}** is banned {duration}.{note}")


@app_commands.command(name="unban", description="Lift a participant's ban")
async def unban(
    interaction: BotInteraction,
    reason: Reason,
    user: discord.User | None = None,
    participant: str | None = None,
) -> None:
    """Lift a ban."""
    api = await defer_for_role(interaction, ADMIN)
    name = await find_participant_name(interaction, user, participant)
    note = await run_decision(api, "admin", "participants", name, "unban", reason=reason)
    await reply(interaction, f"**{escaped(name)}** may participate again.{note}")


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
        await reply_with_lines(interaction, [head, *(f"`{code}`" for code in codes)])
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
    claimant = escaped(str(invite.participant or invite.participant_id))
    state = f"used by {claimant}" if invite.participant_id else "free"
    expiry = f" · valid until {invite.expires_at:%Y-%m-%dT%H:%M:%SZ}" if invite.expires_at else ""
    return f"`{invite.code}` · {state}{expiry}"


COMMANDS: Commands = (
    *(ban, unban, get_user_names, update_user_names),
    *(rate_limit, invites),
)
