"""The tables of participants, bans and invites."""

from ingest.accounts.rules import Account, format_ban_end
from ingest.site.admin.catalogue import link_act
from ingest.site.admin.tables import Link, Operator, Row, Section, link_participant
from ingest.site.reads import api_path
from shared.api.accounts import BanAppeal, Participant, ParticipantNames
from shared.api.leaderboards import Invites
from shared.clock import now

NAMES_MAX, BANS_MAX, INVITES_MAX = 100, 200, 500
BAN_APPEAL_ACTS = ("accept-ban-appeal", "reject-ban-appeal")


async def ban_appeals(operator: Operator) -> Section:
    """Open appeals against bans. Raises `Refused` and `Failed`."""
    people, rows = operator.people, []
    for account in people.feed.now().open_ban_appeals()[:BANS_MAX]:
        path = api_path("admin", "participants", account)
        participant = await operator.api.get(path, Participant)
        if appeal := participant.ban_appeal:
            name = await people.name_of(account)
            cells = (link_participant(name), participant.ban or "", appeal.text, appeal.filed_at)
            acts = [link_act(act, name=name) for act in BAN_APPEAL_ACTS]
            rows.append(Row(cells, acts))
    columns = ("Participant", "Ban", "Appeal", "Filed")
    return Section("Bans", columns, rows, "No appeal against a ban is open.")


async def _bans(operator: Operator) -> Section:
    people, at = operator.people, now()
    bans = [
        (account, ban) for account, ban in people.feed.now().bans.items() if Account(ban).ban_at(at)
    ]
    rows = []
    for account, ban in bans[:BANS_MAX]:
        name = await people.name_of(account)
        cells = (link_participant(name), format_ban_end(ban), ban.reason)
        rows.append(Row(cells, [link_act("unban", name=name)]))
    columns = ("Participant", "Banned", "Reason")
    return Section("Banned", columns, rows, "Nobody is banned.", [link_act("ban")])


async def participant_tables(operator: Operator, after: str) -> list[Section]:
    """Banned participants, and a page of all names. Raises `Refused` and `Failed`."""
    path = api_path("admin", "participants")
    names = await operator.api.get(path, ParticipantNames, after=after, limit=NAMES_MAX)
    rows = [Row((link_participant(item.name), item.participant_id)) for item in names.items]
    if names.next_after:
        rows.append(Row((Link("More participants", f"?after={names.next_after}"), "")))
    everybody = Section(
        "All participants",
        ("Name", "Account"),
        rows,
        "There is no participant yet.",
        [link_act("open-account")],
    )
    return [everybody] if after else [await _bans(operator), everybody]


async def participant_details(operator: Operator, name: str) -> list[Section]:
    """A participant: roles, ban, appeal, identities, tokens. Raises `Refused` and `Failed`."""
    participant = await operator.api.get(api_path("admin", "participants", name), Participant)
    account = (
        participant.participant_id,
        ", ".join(participant.roles),
        ", ".join(participant.leaderboards) or "none",
        participant.ban or "not banned",
    )
    acts = [
        link_act("unban" if participant.ban else "ban", name=name),
        link_act("rename", participant=name),
        link_act("grant-role", name=name),
        link_act("revoke-role", name=name),
    ]
    account_columns = ("Account", "Roles", "Closed leaderboards", "Ban")
    sections = [Section("Account", account_columns, [Row(account, acts)], "")]
    if participant.ban_appeal:
        sections.append(_ban_appeal(name, participant.ban_appeal))
    identities = [
        Row((identity.provider, identity.subject, identity.linked_at))
        for identity in participant.identities
    ]
    tokens = [
        Row(
            (token.id, token.name, token.kind, ", ".join(token.scopes), token.expires_at),
            [link_act("revoke-token", id=token.id)],
        )
        for token in participant.tokens
    ]
    identity_columns = ("Provider", "Identity", "Linked")
    token_columns = ("Number", "Name", "Kind", "Scopes", "Expires")
    return [
        *sections,
        Section("Ways to log in", identity_columns, identities, "They cannot log in yet."),
        Section("Tokens", token_columns, tokens, "They have no token."),
    ]


def _ban_appeal(name: str, appeal: BanAppeal) -> Section:
    is_open = appeal.is_accepted is None
    answer = "open" if is_open else "accepted" if appeal.is_accepted else "rejected"
    acts = [link_act(act, name=name) for act in BAN_APPEAL_ACTS] if is_open else []
    row = Row((appeal.text, appeal.filed_at, answer, appeal.reason), acts)
    return Section("Appeal against the ban", ("Text", "Filed", "Answer", "Its reason"), [row], "")


async def invite_tables(operator: Operator, slug: str) -> list[Section]:
    """The invites to a leaderboard; without one, how to choose it.

    Raises `Refused` and `Failed`.
    """
    if not slug:
        empty, create = "Choose a problem above to see its invites.", [link_act("create-invites")]
        return [Section("Invites", (), (), empty, create)]
    path = api_path("admin", "leaderboards", slug, "invites")
    invites = (await operator.api.get(path, Invites)).items
    rows = [
        Row(
            (
                invite.code,
                link_participant(invite.participant) if invite.participant_id else "not used",
                invite.created_at,
                invite.claimed_at,
                invite.expires_at,
            ),
            [link_act("revoke-invite", code=invite.code)],
        )
        for invite in invites[:INVITES_MAX]
    ]
    note = (
        f"The first {INVITES_MAX} of {len(invites)}: `warpboard admin invite list` prints all."
        if len(invites) > INVITES_MAX
        else ""
    )
    columns = ("Code", "Used by", "Created", "Used", "Valid until")
    create = [link_act("create-invites", leaderboards=slug)]
    return [Section(f"Invites to {slug}", columns, rows, "No invite is valid.", create, note)]
