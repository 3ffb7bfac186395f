"""The commands of `/admin` about participants: bans, names, quotas and invites."""

import json
import re
from datetime import UTC
from typing import Any

import discord
from discord import app_commands

from discord_edge.bot.discord_py import discord_file
from discord_edge.bot.interactions import (
    ADMIN,
    BotInteraction,
    Commands,
    Reason,
    VisibleLeaderboard,
    defer,
    read_attachment,
    record_access,
    reply,
    reply_with_lines,
    run_decision,
)
from discord_edge.platform_api import DiscordUser, PlatformApi
from discord_edge.problems.drafts import deadline_text, parse_closing_time
from discord_edge.wording import escaped
from shared.api.accounts import CurrentAccount, ParticipantNames
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


def _bad_file(reason: str) -> Refused:
    return Refused("bad_file", reason, "attachment")


def read_name_changes(data: bytes, current_names: dict[str, str]) -> dict[str, str]:
    """Return the names that a file changes, by participant id. Raises `Refused` `bad_file`.

    >>> read_name_changes(b'{"1": "ada", "2": "bob"}', {"1": "ada", "2": "eve"})
    {'2': 'bob'}
    """
    try:
        names = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _bad_file(f"the file is not JSON: attach {FORM}") from error
    if not isinstance(names, dict):
        raise _bad_file(f"the file is not a JSON object: attach {FORM}")
    changes: dict[str, Any] = {
        identity: name for identity, name in names.items() if current_names.get(identity) != name
    }
    for identity, name in changes.items():
        if identity not in current_names:
            reason = f"{identity[:60]!r} is not the id of a participant; nothing was changed"
            raise _bad_file(reason)
        if not isinstance(name, str) or not NAME.match(name):
            reason = f"{str(name)[:60]!r} is not a valid name for {identity}: use 1 to 32 of"
            raise _bad_file(f"{reason} a-z 0-9 _ -, first a letter or digit; nothing was changed")
    if len(changes) > NAMES_MAX:
        raise _bad_file(f"{len(changes)} names would change; the limit is {NAMES_MAX} per file")
    return changes


@app_commands.command(name="get-user-names")
async def get_user_names(interaction: BotInteraction) -> None:
    """The participants' names by id"""
    api = await defer(interaction, ADMIN)
    await record_access(interaction, api, "all participants")
    names = await _read_names(api)
    file = discord_file("names.json", json.dumps(names, indent=1).encode())
    text = f"{len(names)} participants: change names in the file for `/admin update-user-names`."
    await interaction.edit_original_response(content=text, attachments=[file])


@app_commands.command(name="update-user-names")
@app_commands.describe(attachment="The .json file of get-user-names, with changed names")
async def update_user_names(
    interaction: BotInteraction, attachment: discord.Attachment, reason: Reason
) -> None:
    """Rename participants"""
    api = await defer(interaction, ADMIN)
    if attachment.size > FILE_BYTES_MAX or not attachment.filename.endswith(".json"):
        raise _bad_file(f"attach a .json file of at most {FILE_BYTES_MAX:,} bytes")
    names = await _read_names(api)
    data = await read_attachment(attachment, "attachment")
    changes = read_name_changes(data, names)
    lines = [
        await _rename(api, names[identity], name, reason) for identity, name in changes.items()
    ]
    await reply_with_lines(interaction, lines, "The file changes no names.")


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
    names: dict[str, str] = {}
    after: str | None = ""
    for _ in range(PAGES_MAX):
        page = await api.get(ParticipantNames, "admin", "participants", after=after or "")
        names |= {participant.participant_id: participant.name for participant in page.items}
        after = page.next_after
        if after is None:
            break
    return names


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


@app_commands.command()
async def unban(
    interaction: BotInteraction,
    reason: Reason,
    user: discord.User | None = None,
    participant: str | None = None,
) -> None:
    """Lift a participant's ban"""
    api = await defer(interaction, ADMIN)
    name = await _find_name(interaction, user, participant)
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
        examples = "ranked=10/day, H100.test=60/hour or test=none"
        reason = f"{text[:60]!r} is not a quota: write {examples}"
        raise Refused("bad_quota", f"{reason}; the windows are {', '.join(WINDOWS_S)}", "value")
    return {
        "bucket": f"{slug}.{match['gpu'] or '*'}.{match['category']}",
        "limit": None if match["none"] else int(match["count"]),
        "window_s": WINDOWS_S[match["window"] or "day"],
    }


def _require_reason(reason: str | None) -> str:
    if reason is None:
        raise Refused("invalid_request", "give a `reason`", "reason")
    return reason


@app_commands.command(name="rate-limit")
@app_commands.describe(
    value="ranked=10/day, H100.test=60/hour or test=none; without it, the quotas are shown",
    user="Set them for this Discord user only; otherwise for everybody",
    participant="Set them for this participant only, by name on the platform",
)
async def rate_limit(  # noqa: PLR0913 - each is an option on Discord
    interaction: BotInteraction,
    leaderboard_name: VisibleLeaderboard,
    *,
    value: app_commands.Range[str, 1, 400] | None = None,
    reason: Reason | None = None,
    user: discord.User | None = None,
    participant: str | None = None,
) -> None:
    """The quotas of a leaderboard"""
    api, title = await defer(interaction, ADMIN), f"**{escaped(leaderboard_name)}**"
    old = await _quotas_text(api, leaderboard_name)
    if value is None:
        await reply(interaction, f"{title}: {old}.")
        return
    reason, quotas = _require_reason(reason), split_quotas(value)
    if user is None and participant is None:
        path = ("admin", "leaderboards", leaderboard_name)
        await api.request(object, "PUT", *path, quotas=quotas, reason=reason)
        await reply(interaction, f"{title}: {old} → {await _quotas_text(api, leaderboard_name)}.")
        return
    name = await _find_name(interaction, user, participant)
    bodies = [parse_quota(leaderboard_name, quota) for quota in quotas]
    # The API takes quotas of future participants; here an unknown name is a typing error.
    await api.get(object, "admin", "participants", name)
    for body in bodies:
        body |= {"participant": name, "reason": reason}
        await api.request(object, "PUT", "admin", "quota", **body)
    text = f"{title}, for **{escaped(name)}** only: {escaped(', '.join(quotas))}."
    await reply(interaction, text)


async def _quotas_text(api: PlatformApi, slug: str) -> str:
    settings = await api.get(LeaderboardSettings, "leaderboards", slug)
    return escaped(", ".join(settings.quotas)) or "no limit"


@app_commands.command()
@app_commands.describe(
    count="The number of new invites; without it, existing ones are listed",
    until="YYYY-MM-DD HH:MM in UTC: when new ones expire",
    revoke="An invite to revoke",
)
async def invites(  # noqa: PLR0913 - each is an option on Discord
    interaction: BotInteraction,
    leaderboard_name: VisibleLeaderboard,
    *,
    count: app_commands.Range[int, 1, CODES_MAX] | None = None,
    until: str | None = None,
    revoke: app_commands.Range[str, 1, CODE_LENGTH_MAX] | None = None,
    reason: Reason | None = None,
) -> None:
    """Invites to a closed leaderboard"""
    api, slug = await defer(interaction, ADMIN), leaderboard_name
    if count is not None and revoke is not None:
        raise Refused("invalid_request", "choose either `count` or `revoke`", "revoke")
    if count is not None:
        expires_at = None if until is None else parse_closing_time(until, now())
        body: dict[str, object] = {"leaderboards": [slug], "count": count}
        body |= {"reason": _require_reason(reason)}
        body |= {} if expires_at is None else {"expires_at": expires_at.isoformat()}
        codes = (await api.request(InviteCodes, "POST", "admin", "invites", **body)).codes
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


COMMANDS: Commands = (*(ban, unban, get_user_names, update_user_names), *(rate_limit, invites))
