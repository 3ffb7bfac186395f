"""The tables of operators' pages, and those of submissions, agents, pools and dead letters."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import quote

from ingest.access.callers import Caller
from ingest.accounts.service import Accounts
from ingest.site.admin.acts import SessionApi
from ingest.site.admin.catalogue import PARTICIPANT_PAGE, ActLink, link_act
from ingest.site.reads import api_path
from shared.api.agents import Agent, Agents
from shared.api.moderation import Decision, Moderation
from shared.api.queues import DeadLetters, IntakeStatus, Pool, Queues
from shared.api.submissions import NewestSubmissions, SubmissionLine
from shared.clock import now
from shared.presentation.units import instant_text

READ_MAX = 200
FAILED_MAX = 50
# As many submissions as may wait by default (WARPBOARD_INGEST_QUEUED_MAX).
OPEN_MAX = 10_000
# A submission is in these states for a moment only.
MOMENTARY_STATES, MOMENT_S = ("received", "assigned"), 60.0


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
    is_momentary = submission.state in MOMENTARY_STATES
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


async def read_decisions(api: SessionApi) -> list[Decision]:
    """Return the submissions that wait for a decision. Raises `Refused` and `Failed`."""
    path = api_path("moderation")
    return (await api.get(path, Moderation, open="true", limit=READ_MAX)).items


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
    """Held submissions with their evidence. Raises `Refused` and `Failed`."""
    decisions = filter(is_held, await read_decisions(operator.api))
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
