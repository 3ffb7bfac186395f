"""The tables of operators' pages: submissions, agents, pools, participants, bans and invites."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import NamedTuple
from urllib.parse import quote

from ingest.identity.accounts.service import Accounts
from ingest.identity.bans import ban_at, format_ban_end
from ingest.identity.caller import Caller
from ingest.site.admin.acts import SessionApi
from ingest.site.admin.catalogue import PARTICIPANT_PAGE, ActLink, link_act
from ingest.site.reads import api_path
from shared.api.accounts import BanAppeal, Participant, ParticipantNames
from shared.api.agents import Agent, Agents
from shared.api.evaluations import EvaluationUses
from shared.api.labels import SEVERITIES, LabelledSubmissions, SourceLabel
from shared.api.leaderboards import Invites
from shared.api.moderation import Decision, Moderation
from shared.api.queues import DeadLetters, IntakeStatus, Pool, Queues
from shared.api.submissions import NewestSubmissions, SubmissionLine
from shared.clock import now
from shared.presentation.units import instant_text

READ_MAX = 200
EVALUATION_DAYS = 30
FAILED_MAX = 50
# As many submissions as may wait by default (WARPBOARD_INGEST_QUEUED_MAX).
OPEN_MAX = 10_000
# A submission is in this state for a moment only.
MOMENTARY_STATE, MOMENT_S = "assigned", 60.0
NAMES_MAX, BANS_MAX, INVITES_MAX = 100, 200, 500
BAN_APPEAL_ACTS = ("accept-ban-appeal", "reject-ban-appeal")


class Link(NamedTuple):
    """A link in a table."""

    text: str
    path: str


class Tag(NamedTuple):
    """A short state in a table; `tone` is good, bad or plain."""

    label: str
    tone: str = "plain"


class Row(NamedTuple):
    """A row of a table: for each column a text, an instant, a link or a tag; and its acts."""

    cells: Sequence[object]
    acts: Sequence[ActLink] = ()


class Section(NamedTuple):
    """A table of a page, or its empty text, and acts that no row is needed for."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Row]
    empty: str
    acts: Sequence[ActLink] = ()
    note: str = ""


@dataclass(frozen=True)
class Operator:
    """The operator who opens a page, and the API as they may use it."""

    caller: Caller
    api: SessionApi
    people: Accounts


def explain_delay(submission: SubmissionLine, pool: Pool | None, at: datetime) -> str:
    """Return why an open submission needs attention; "" if it is on time."""
    until_at = submission.state_deadline_at
    if until_at is not None and at > until_at:
        return f"Overdue: {submission.state_owner} had to act until {instant_text(until_at, UTC)}."
    is_momentary = submission.state == MOMENTARY_STATE
    if is_momentary and at - submission.state_since > timedelta(seconds=MOMENT_S):
        return f"Stuck: {submission.state} for more than a minute."
    if submission.state != "queued" or pool is None:
        return ""
    if pool.paused:
        return f"Waiting: the pool is paused ({pool.paused})."
    return "" if pool.agents_online else "Waiting: no agent of this GPU type is online."


async def read_delayed(api: SessionApi) -> list[tuple[SubmissionLine, str]]:
    """Return the open submissions that need attention and why, oldest first.

    Raises `Refused` and `Failed`.
    """
    queues, path = await api.get(api_path("queue"), Queues), api_path("submissions")
    pools = {pool.gpu: pool for pool in queues.pools}
    submissions: list[SubmissionLine] = []
    before: int | None = None
    while len(submissions) < OPEN_MAX:
        page = await api.get(path, NewestSubmissions, state="open", limit=READ_MAX, before=before)
        submissions += page.items
        if len(page.items) < READ_MAX:
            break
        before = page.items[-1].number
    at = now()
    delays = [(line, explain_delay(line, pools.get(line.gpu), at)) for line in submissions]
    return [(line, reason) for line, reason in reversed(delays) if reason]


async def read_decisions(api: SessionApi, *, is_author: bool = False) -> list[Decision]:
    """Return the submissions that wait for a decision; for authors, those to their problems.

    Raises `Refused` and `Failed`.
    """
    filters = {"open": "true", "authored": str(is_author).lower(), "limit": READ_MAX}
    return (await api.get(api_path("moderation"), Moderation, **filters)).items


def is_held(decision: Decision) -> bool:
    """Return whether a submission waits for a review."""
    return decision.is_held or (decision.is_held_by_rule and decision.decided_at is None)


def link_participant(name: str | None) -> Link | str:
    """Return a link to a participant's page; a text if their name was deleted."""
    return Link(name, PARTICIPANT_PAGE.format(name=quote(name))) if name else "name deleted"


def _submission_link(number: int) -> Link:
    return Link(f"#{number}", f"/submissions/{number}")


async def overdue_tables(operator: Operator) -> list[Section]:
    """Submissions that are overdue, stuck or without an agent, and those that the platform failed.

    Raises `Refused` and `Failed`.
    """
    rows = [
        Row(
            (
                _submission_link(line.number),
                link_participant(line.participant),
                f"{line.problem} on {line.gpu}",
                line.state,
                line.state_since,
                reason,
            ),
            [
                link_act("retry-submission", number=line.number),
                link_act("cancel-submission", number=line.number),
            ],
        )
        for line, reason in await read_delayed(operator.api)
    ]
    columns = ("Submission", "Participant", "Leaderboard", "State", "Since", "Why it is here")
    note = (
        "The scheduler retries by itself and ends every overdue submission. If some stay here, a "
        "service is stuck: see docs/operating/overdue-submissions.md."
    )
    empty = "No submission is overdue, stuck or waiting for an agent that is not there."
    return [
        Section("Stuck and overdue", columns, rows, empty, note=note),
        await _failed_submissions(operator),
    ]


async def label_tables(operator: Operator, rule: str) -> list[Section]:
    """Submissions that the advisory screen labels: by a rule, or from a severity on.

    Raises `Refused` and `Failed`.
    """
    filters = {"severity" if rule in SEVERITIES else "rule": rule or None, "limit": READ_MAX}
    page = await operator.api.get(api_path("admin", "labels"), LabelledSubmissions, **filters)
    rows = [
        Row(
            (
                Link(f"#{line.number}", f"/submissions/{line.number}#labels"),
                link_participant(line.participant),
                f"{line.problem} {line.problem_version} on {line.gpu}",
                Tag(
                    line.labels[0].severity, "bad" if line.labels[0].severity == "high" else "plain"
                ),
                ", ".join(_label_text(label) for label in line.labels),
                line.received_at,
            ),
            [link_act("hold", number=line.number)],
        )
        for line in page.items
    ]
    columns = (
        "Submission",
        "Participant",
        "Leaderboard",
        "Severity",
        "Rules and lines",
        "Received",
    )
    empty = "The advisory screen labels no ranked submission so."
    note = "The newest. Labels are hints: they change no score and no rank, and honest kernels "
    note += "have some. The page of a submission quotes the lines."
    if not page.is_complete:
        note += " The newest sources are still being screened."
    return [Section("Labelled submissions", columns, rows, empty, note=note)]


def _label_text(label: SourceLabel) -> str:
    """Return a rule with its lines, such as `sleep_called (kernel.py: 7, 9)`."""
    files = [
        f"{file}: {', '.join(str(place.line) for place in places)}"
        for file, places in groupby(label.places, lambda place: place.file)
    ]
    return f"{label.rule} ({'; '.join(files)})"


async def evaluation_tables(operator: Operator) -> list[Section]:
    """What each token used for evaluations. Raises `Refused` and `Failed`."""
    path = api_path("admin", "evaluations")
    uses = await operator.api.get(path, EvaluationUses, days=EVALUATION_DAYS)
    rows = [
        Row(
            (
                link_participant(use.participant),
                use.token or "login",
                use.gpu,
                use.evaluations,
                f"{use.items:,} ({use.cached:,} cached)",
                f"{use.device_s:,.0f} s",
                "" if use.cost is None else f"{use.cost:.2f}",
            )
        )
        for use in uses.items
    ]
    columns = ("Participant", "Token", "GPU type", "Evaluations", "Items", "Device time", "Cost")
    note = "A cost needs the price of the GPU type in WARPBOARD_RANKER_DEVICE_PRICES."
    empty = "Nobody requested an evaluation in this time."
    heading = f"Evaluations of the last {EVALUATION_DAYS} days"
    return [Section(heading, columns, rows, empty, note=note)]


async def _failed_submissions(operator: Operator) -> Section:
    path, filters = api_path("submissions"), {"state": "infra_failed", "limit": FAILED_MAX}
    page = await operator.api.get(path, NewestSubmissions, **filters)
    rows = [
        Row(
            (
                _submission_link(line.number),
                link_participant(line.participant),
                f"{line.problem} on {line.gpu}",
                line.code or "",
                line.received_at,
            ),
            [link_act("retry-submission", number=line.number)],
        )
        for line in page.items
    ]
    columns = ("Submission", "Participant", "Leaderboard", "Code", "Received")
    note = (
        f"The newest, at most {FAILED_MAX}. Their owners have their quota back and were asked to "
        "submit again. Retry does it for them, once."
    )
    empty = "The platform has failed no submission."
    return Section("Failed by the platform", columns, rows, empty, note=note)


async def held_tables(operator: Operator) -> list[Section]:
    """Held submissions with their evidence; for authors, those to their own problems.

    Raises `Refused` and `Failed`.
    """
    is_author = not operator.caller.may("admin:submissions")
    decisions = filter(is_held, await read_decisions(operator.api, is_author=is_author))
    rows = [await _held_row(operator, decision) for decision in decisions]
    columns = ("Submission", "Participant", "Leaderboard", "Rule", "Evidence", "Held by")
    acts = [link_act(name) for name in ("hold", "disqualify", "restore")]
    note = "The page of a submission shows its times, cases, events, output and source."
    return [Section("Held submissions", columns, rows, "No submission is held.", acts, note)]


async def _held_row(operator: Operator, decision: Decision) -> Row:
    kind, _, account = (decision.actor or "").partition(":")
    names = ["release-submission"] + ([] if decision.is_disqualified else ["disqualify"])
    cells = (
        Link(f"#{decision.number}", f"/submissions/{decision.number}#why"),
        link_participant(decision.participant),
        f"{decision.problem} {decision.problem_version} on {decision.gpu}",
        decision.rule or decision.code or "",
        decision.reason or decision.end_reason or "",
        await operator.people.name_of(account)
        if kind == "account"
        else account or "the platform's own rule",
    )
    return Row(cells, [link_act(name, number=decision.number) for name in names])


async def submission_appeals(operator: Operator) -> Section:
    """Open appeals about submissions. Raises `Refused` and `Failed`."""
    rows = [
        Row(
            (
                _submission_link(decision.number),
                link_participant(decision.participant),
                "Disqualified" if decision.is_disqualified else "Held",
                decision.reason or decision.end_reason or "",
                decision.appeal_text or "The text is no longer stored.",
                decision.appealed_at,
            ),
            [
                link_act("accept-appeal", number=decision.number),
                link_act("reject-appeal", number=decision.number),
            ],
        )
        for decision in await read_decisions(operator.api)
        if decision.appeal == "filed"
    ]
    columns = ("Submission", "Participant", "Decision", "Its reason", "Appeal", "Filed")
    return Section("Submissions", columns, rows, "No appeal about a submission is open.")


async def agent_tables(operator: Operator) -> list[Section]:
    """All agents. Raises `Refused` and `Failed`."""
    agents = (await operator.api.get(api_path("admin", "agents"), Agents)).items
    rows = [_agent_row(agent) for agent in agents]
    columns = ("Agent", "GPU type", "State", "Standing", "Why", "Owner")
    note = (
        "The scheduler quarantines an agent that fails repeatedly or whose canary is too slow, and "
        "an agent can quarantine itself. Quarantine one yourself if its results are in doubt; "
        "drain it for maintenance."
    )
    empty = "No agent is registered yet. Enroll one, then start it on its machine."
    return [Section("Agents", columns, rows, empty, [link_act("enroll")], note)]


def _agent_row(agent: Agent) -> Row:
    state = "offline" if not agent.is_alive else "free" if agent.is_free else "busy"
    is_restricted = agent.cordoned or agent.drained or agent.quarantined
    offers = {
        "enroll": not agent.is_enrolled,
        "release-agent": is_restricted,
        "cordon": not agent.cordoned,
        "drain": not agent.drained,
        "quarantine": not agent.quarantined,
        "revoke-agent": True,
    }
    names = [name for name, is_offered in offers.items() if is_offered and agent.revoked is None]
    tone = "good" if agent.standing == "enrolled" else "bad"
    standing = Tag(agent.standing.replace("_", " "), tone)
    reason = agent.standing_reason or agent.quarantine
    cells = (agent.id, agent.gpu, Tag(state), standing, reason, agent.owner or "")
    return Row(cells, [link_act(name, agent=agent.id) for name in names])


def is_quarantined(agent: Agent) -> bool:
    """Return whether an agent is in quarantine, by the scheduler or by itself."""
    return agent.revoked is None and bool(agent.quarantined is not None or agent.quarantine)


async def intake_tables(operator: Operator) -> list[Section]:
    """The intake and the pools. Raises `Refused` and `Failed`."""
    status, queues, agents = await asyncio.gather(
        operator.api.get(api_path("intake"), IntakeStatus),
        operator.api.get(api_path("queue"), Queues),
        operator.api.get(api_path("admin", "agents"), Agents),
    )
    is_open = status.paused is None
    state = Tag("open", "good") if is_open else Tag("closed", "bad")
    act = link_act("pause-intake" if is_open else "resume-intake")
    pools = {pool.gpu: pool for pool in queues.pools}
    gpus = sorted({agent.gpu for agent in agents.items if agent.gpu} | set(pools))
    columns = ("GPU type", "State", "Why", "Waiting", "Agents online")
    empty = "No agent is registered and nothing waits, so there is no pool yet."
    return [
        Section("Intake", ("State", "Why"), [Row((state, status.paused or ""), [act])], ""),
        Section("Pools", columns, [_pool_row(gpu, pools.get(gpu)) for gpu in gpus], empty),
    ]


def _pool_row(gpu: str, pool: Pool | None) -> Row:
    reason = pool.paused if pool else None
    state = Tag("paused", "bad") if reason else Tag("running", "good")
    waiting, online = (pool.waiting, pool.agents_online) if pool else (0, 0)
    names = ("resume-pool" if reason else "pause-pool", "choose-canary", "remove-canary")
    return Row((gpu, state, reason, waiting, online), [link_act(name, gpu=gpu) for name in names])


async def dead_letter_tables(operator: Operator) -> list[Section]:
    """Dead letters, and the event at which the read models stopped.

    Raises `Refused` and `Failed`.
    """
    letters, queues = await asyncio.gather(
        operator.api.get(api_path("admin", "deadletters"), DeadLetters),
        operator.api.get(api_path("queue"), Queues),
    )
    rows = [
        Row(
            (
                f"{letter.seq} of {letter.stream}",
                letter.consumer,
                letter.deliveries,
                letter.at,
                letter.reason,
            ),
            [link_act("redrive", consumer=letter.consumer, seq=letter.seq)],
        )
        for letter in letters.items
    ]
    columns = ("Event", "Consumer", "Deliveries", "Given up", "Why")
    parked = queues.parked
    parked_rows = (
        [Row((parked.seq, parked.error), [link_act("skip-event", name="ranker", seq=parked.seq)])]
        if parked
        else []
    )
    return [
        Section("Dead letters", columns, rows, "No consumer has given up an event."),
        Section(
            "Read models", ("Event", "Why it cannot be folded"), parked_rows, "They are not parked."
        ),
    ]


async def ban_appeals(operator: Operator) -> Section:
    """Open appeals against bans. Raises `Refused` and `Failed`."""
    people, rows = operator.people, []
    for account in people.feed.rights().open_ban_appeals()[:BANS_MAX]:
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
    bans = [(account, ban) for account, ban in people.feed.rights().bans.items() if ban_at(ban, at)]
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
