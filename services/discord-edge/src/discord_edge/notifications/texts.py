"""The texts of notifications: public announcements and messages to one participant."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from discord_edge.wording import (
    CONTENT_MAX,
    deadline_time,
    escaped,
    render_statement,
    without_mentions,
)
from shared import events
from shared.api.accounts import DiscordParticipant, SubmissionOwner
from shared.api.leaderboards import Entry, Leaderboard
from shared.api.moderation import RejudgeSummary
from shared.api.problems import FullProblem
from shared.presentation.units import (
    RANGE_LEGEND,
    TIED_LEGEND,
    count_text,
    escape_control_characters,
    interval_text,
    pooled_text,
    rank_text,
    time_text,
)

MEDALS = ("🥇", "🥈", "🥉")
TOP_RANK_MAX = 10
STATEMENT_MAX = 1200
NAME_MAX = 100
UNNAMED = "an unnamed participant"
ACTIVE = "active"
HIDDEN = "hidden"
BEGINNER = "beginner"
OFF, THREAD = "off", "thread"
# Escaping may double both, and a message has at most 2000 characters.
RULE_MAX, REASON_MAX = 200, 600
HELD = " is held: it stays off its leaderboard until a moderator has reviewed it"
DISQUALIFIED = " is disqualified: it is no longer on its leaderboard"
GREETING = """\
**Welcome! Submit a kernel here, and it is ranked by how fast it runs.**
1. `/leaderboard list` shows what is open.
2. `/leaderboard template` gives you a file to start from.
3. `/leaderboard submit test` checks your file; `ranked` instead of `test` ranks it.
Only you see the answers."""


class ProblemSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a problem's forum post shows."""

    slug: str
    title: str
    problem_version: int
    gpus: list[str]
    state: str
    deadline_at: datetime | None = None
    statement: str = ""
    tags: list[str] | None = None
    # The text about the last rejudge; it is stored here because no API answer contains it.
    rejudge: str = ""

    @property
    def is_calm(self) -> bool:
        """Whether the problem is for beginners; its podiums are not announced."""
        return BEGINNER in (self.tags or ())


def summarize_problem(problem: FullProblem, rejudge: str = "") -> ProblemSummary:
    """Return what the forum post of a problem shows; `rejudge` is about its last rejudge."""
    summary = msgspec.convert(problem, ProblemSummary, from_attributes=True)
    return msgspec.structs.replace(summary, rejudge=rejudge)


def _participant(entry: Entry) -> str:
    return escaped(entry.participant or UNNAMED, 60)


def result_line(entry: Entry, board: Leaderboard) -> str:
    """Announce a ranked result that is now on its leaderboard."""
    rank = rank_text(entry.rank, entry.best_rank, is_tied=entry.is_tied)
    achievement = f"has rank {rank}"
    if entry.rank <= len(MEDALS):
        symbol = MEDALS[entry.rank - 1]
    elif entry.rank <= TOP_RANK_MAX:
        symbol = "🏁"
    else:
        symbol, achievement = "📈", f"has a new best, rank {rank}"
    first = ", the first valid entry" if len(board.items) == 1 else ""
    leaderboard = f"`{board.problem}` on {escaped(board.gpu, 40)}"
    result = f"{leaderboard}: **{time_text(entry.score_us)}**{first}"
    return f"{symbol} **{_participant(entry)}** {achievement} of {result} · #{entry.number}"


def slower_result_line(entry: Entry, board: Leaderboard, number: int, score_us: float) -> str:
    """Announce a valid ranked result that is not its participant's best."""
    leaderboard = leaderboard_label(board.problem, board.gpu)
    rank = rank_text(entry.rank, entry.best_rank, is_tied=entry.is_tied)
    note = f"valid but slower than their {time_text(entry.score_us)} at rank {rank}"
    if number in entry.pooled_over:
        score_us = entry.score_us
        note = f"{pooled_text(entry.pooled_over).removeprefix(', ')}, at rank {rank}"
    score = time_text(score_us)
    return f"✔️ **{_participant(entry)}** has {score} on {leaderboard}, {note} · #{number}"


def thread_name(entry: Entry, board: Leaderboard) -> str:
    """Name the thread below the announcement of a ranked result."""
    name = " ".join(escape_control_characters(entry.participant or UNNAMED).split())[:50]
    return f"{board.problem} · {name} · {board.gpu}"[:NAME_MAX]


def result_details(entry: Entry) -> str:
    """Describe a ranked result in a few lines."""
    uncertainty = f" ({interval_text(entry.interval_us)})" if entry.interval_us else ""
    pooled = pooled_text(entry.pooled_over)
    tier = f"\nTiming tier {escaped(entry.tier, 20)}" if entry.tier else ""
    tied = f": {TIED_LEGEND}" if entry.is_tied else ""
    tied = tied if entry.best_rank is None else f": {RANGE_LEGEND}"
    rank = f"Rank {rank_text(entry.rank, entry.best_rank, is_tied=entry.is_tied)}{tied}"
    score = f"{time_text(entry.score_us)}{uncertainty}{pooled}"
    return f"Submission #{entry.number}: score {score}\n{rank}{tier}"


def podium_text(board: Leaderboard, before: Sequence[str] | None, *, is_record: bool) -> str:
    """Announce the first three of a leaderboard and what changed; empty if nothing changed.

    `before` are the accounts on the last announced podium; None if they are unknown.
    """
    entries = board.items[: len(MEDALS)]
    accounts = [entry.participant_id for entry in entries]
    if before is not None and list(before) == accounts and not is_record:
        return ""
    headline = "A new record on" if is_record else "The podium changed on"
    moves = ", ".join([] if before is None else _podium_moves(board, list(before)))
    heading = f"{headline} {leaderboard_label(board.problem, board.gpu)}:"
    rows = [
        f"{MEDALS[entry.rank - 1]} **{_participant(entry)}** {time_text(entry.score_us)}"
        for entry in entries
        if entry.rank <= len(MEDALS)
    ]
    return "\n".join([f"{heading} {moves}." if moves else heading, *rows])


def _podium_moves(board: Leaderboard, before: list[str]) -> list[str]:
    entries = board.items[: len(MEDALS)]
    moves = [
        f"**{_participant(entry)}** {'took first place' if place == 0 else 'entered the top 3'}"
        for place, entry in enumerate(entries)
        if entry.participant_id not in before or (place == 0 and before[0] != entry.participant_id)
    ]
    accounts = {entry.participant_id for entry in entries}
    return moves + [
        f"**{_participant(entry)}** dropped out"
        for entry in board.items
        if entry.participant_id in before and entry.participant_id not in accounts
    ]


def rejudge_text(rejudge: RejudgeSummary, reason: str) -> str:
    """Announce that the results of a rejudge now count."""
    submissions = count_text(rejudge.count, "submission was", "submissions were")
    suffix = f" {escaped(reason, 300)}" if reason else ""
    return (
        f"Rejudged under version {rejudge.to_version}: {submissions} run again, "
        f"and {count_text(rejudge.changed_count, 'result')} changed.{suffix}"
    )


def post_text(summary: ProblemSummary) -> str:
    """Render the first message of a problem's forum post."""
    head = [
        f"**{escaped(summary.title, 150)}** · `{summary.slug}`, version {summary.problem_version}",
        f"{_state(summary)} · GPU types: {escaped(', '.join(summary.gpus) or 'none', 150)}",
        *([summary.rejudge] if summary.rejudge else []),
    ]
    commands = "`/leaderboard task` for the files, `/leaderboard show` for the ranking "
    commands += f"({summary.slug})."
    # Escaping may double what surrounds the statement; the statement gets the remaining space.
    chars_max = min(STATEMENT_MAX, CONTENT_MAX - len("\n".join([*head, "", "", commands])))
    statement = without_mentions(escape_control_characters(summary.statement))
    return "\n".join([*head, "", render_statement(statement, chars_max), "", commands])


def _state(summary: ProblemSummary) -> str:
    if summary.state == HIDDEN:
        return "No longer public"
    if summary.state != ACTIVE:
        return "Closed: it no longer takes submissions"
    deadline_at = summary.deadline_at
    return "Open" if deadline_at is None else f"Open until {deadline_time(deadline_at)}"


def changes_text(before: ProblemSummary, after: ProblemSummary) -> str:
    """Announce what changed about a problem; empty if nothing worth a message did.

    >>> sort = ProblemSummary(slug="sort", title="Sort", problem_version=1, gpus=[], state="active")
    >>> changes_text(sort, msgspec.structs.replace(sort, problem_version=2))
    'Version 2 is out.'
    """
    changes: list[str] = []
    if after.state != before.state:
        changes.append(f"{_state(after)}.")
    elif after.deadline_at != before.deadline_at:
        at = after.deadline_at
        no_deadline = "There is no longer a deadline."
        changes.append(no_deadline if at is None else f"The deadline is now {deadline_time(at)}.")
    if after.problem_version != before.problem_version:
        changes.append(f"Version {after.problem_version} is out.")
    if sorted(after.gpus) != sorted(before.gpus):
        changes.append(f"The GPU types are now: {escaped(', '.join(after.gpus) or 'none', 200)}.")
    if not changes and (after.title, after.statement) != (before.title, before.statement):
        changes.append("The description changed.")
    return "\n".join(changes)


class PodiumUpdate(NamedTuple):
    """A leaderboard whose podium changed since it was last announced, as of an event."""

    problem: str
    gpu: str
    seq: int
    is_record: bool
    # The accounts on the podium when it was last announced; None if no event names them.
    before: list[str] | None = None


class ProblemPost(NamedTuple):
    """The forum post of a problem, and what it shows."""

    thread: str
    facts: ProblemSummary


def wants_notice(participant: DiscordParticipant, notice: str) -> bool:
    """Whether they chose to receive an optional notification and can be reached."""
    return participant.discord is not None and getattr(participant.preferences, notice) != OFF


def decision_text(fact: events.Fact, owner: SubmissionOwner) -> tuple[str, bool] | None:
    """Describe a decision, and say whether one may appeal it; None for any other fact."""
    match fact:
        case events.SubmissionFinished(is_held=True) | events.SubmissionHeld():
            decision, may_appeal = HELD, True
        case events.SubmissionDisqualified():
            decision, may_appeal = DISQUALIFIED, True
        case events.SubmissionReleased():
            decision, may_appeal = " is no longer held and may be ranked", False
        case events.SubmissionRestored():
            decision, may_appeal = " is no longer disqualified and may be ranked", False
        case events.AppealDecided(is_accepted=is_accepted):
            outcome = "accepted: the submission may be ranked" if is_accepted else "rejected"
            decision, may_appeal = f" was reviewed again, and your appeal is {outcome}", False
        case _:
            return None
    rule, reason = getattr(fact, "rule", ""), getattr(fact, "reason", "")
    label = leaderboard_label(owner.problem, owner.gpu)
    lines = [f"Your submission #{owner.number} ({label}){decision}."]
    lines += [f"Rule: {escaped(rule, RULE_MAX)}"] if rule else []
    lines += [f"Reason: {escaped(reason, REASON_MAX)}"] if reason else []
    return "\n".join(lines), may_appeal


def ban_appeal_text(fact: events.BanAppealDecided) -> str:
    """Describe the decision about an appeal against a ban.

    >>> ban_appeal_text(events.BanAppealDecided(is_accepted=True, reason="a mistake"))
    'Your ban was reviewed again, and your appeal is accepted.\\nReason: a mistake'
    """
    outcome = "accepted" if fact.is_accepted else "rejected"
    reason = escaped(fact.reason, REASON_MAX)
    return f"Your ban was reviewed again, and your appeal is {outcome}.\nReason: {reason}"


def appeal_hint(number: int) -> str:
    """Explain how to appeal: with the button below the message, or with the CLI."""
    command = f"`warpboard submission appeal {number} TEXT`"
    return f"If this is wrong, appeal with the button below or with {command}."


def finished_text(owner: SubmissionOwner, headline: str) -> str:
    """Say that a submission has finished, and how."""
    label = leaderboard_label(owner.problem, owner.gpu)
    return f"Your submission #{owner.number} ({label}, {owner.mode}) has finished: {headline}"


def overtaken_text(overtaken: Entry, entry: Entry, board: Leaderboard) -> str:
    """Say that an entry overtook the recipient's."""
    name = escaped(entry.participant or "Another participant", 60)
    label = leaderboard_label(board.problem, board.gpu)
    score, own_score = time_text(entry.score_us), time_text(overtaken.score_us)
    rank = rank_text(overtaken.rank, overtaken.best_rank, is_tied=False)
    return (
        f"**{name}** overtook you on {label}, with #{entry.number}: {score}. "
        f"Your #{overtaken.number}, {own_score}, now has rank {rank}."
    )


def deadline_text(slug: str, deadline_at: datetime) -> str:
    """Say that a leaderboard closes soon."""
    return f"`{slug}` takes submissions until {deadline_time(deadline_at)}."


def leaderboard_label(problem: str, gpu: str) -> str:
    """Name a leaderboard."""
    return f"`{problem}`, {escaped(gpu, 40)}"


def newly_overtaken(entry: Entry, board: Leaderboard, best_us: float | None) -> Sequence[Entry]:
    """Return the entries that a new entry is ahead of, and that its participant was behind before.

    `best_us` is the participant's previous best score; None if this is their first.
    """
    return [
        other
        for other in board.items
        if (other.best_rank or other.rank) > entry.rank
        and (best_us is None or other.score_us < best_us)
    ]


class Notice(NamedTuple):
    """A message to one participant, and the number of the submission that they may appeal."""

    text: str
    appeal: int | None = None
