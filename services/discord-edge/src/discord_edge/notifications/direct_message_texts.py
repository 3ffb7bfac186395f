"""The texts of direct messages to participants about their own submissions."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from discord_edge.wording import deadline_time, escaped
from shared.api.leaderboards import Entry, Leaderboard
from shared.api.preferences import DiscordParticipant, SubmissionOwner
from shared.events import (
    AppealDecided,
    BanAppealDecided,
    Fact,
    SubmissionDisqualified,
    SubmissionFinished,
    SubmissionHeld,
    SubmissionReleased,
    SubmissionRestored,
)
from shared.presentation.units import time_text

OFF, THREAD = "off", "thread"
# Escaping may double both, and a message has at most 2000 characters.
RULE_MAX, REASON_MAX = 200, 600
HELD = " is held: it stays off its leaderboard until a moderator has reviewed it"
DISQUALIFIED = " is disqualified: it is no longer on its leaderboard"


def wants_notice(participant: DiscordParticipant, notice: str) -> bool:
    """Whether they chose to receive an optional notification and can be reached."""
    return participant.discord is not None and getattr(participant.preferences, notice) != OFF


def decision_text(fact: Fact, owner: SubmissionOwner) -> tuple[str, bool] | None:
    """Describe a decision about a submission, and say whether its owner may appeal it.

    Returns None for facts that owners are not notified of.
    """
    rule, reason, may_appeal = "", getattr(fact, "reason", ""), False
    match fact:
        case SubmissionFinished(is_held=True):
            decision, may_appeal = HELD, True
        case SubmissionHeld():
            decision, rule, may_appeal = HELD, fact.rule, True
        case SubmissionDisqualified():
            decision, rule, may_appeal = DISQUALIFIED, fact.rule, True
        case SubmissionReleased():
            decision = " is no longer held and may be ranked"
        case SubmissionRestored():
            decision = " is no longer disqualified and may be ranked"
        case AppealDecided(is_accepted=is_accepted):
            outcome = "accepted: the submission may be ranked" if is_accepted else "rejected"
            decision = f" was reviewed again, and your appeal is {outcome}"
        case _:
            return None
    label = leaderboard_label(owner.problem, owner.gpu)
    lines = [f"Your submission #{owner.number} ({label}){decision}."]
    lines += [f"Rule: {escaped(rule, RULE_MAX)}"] if rule else []
    lines += [f"Reason: {escaped(reason, REASON_MAX)}"] if reason else []
    return "\n".join(lines), may_appeal


def ban_appeal_text(fact: BanAppealDecided) -> str:
    """Describe the decision about an appeal against a ban.

    >>> ban_appeal_text(BanAppealDecided(is_accepted=True, reason="a mistake"))
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
    return (
        f"**{name}** overtook you on {label}, with #{entry.number}: {score}. "
        f"Your #{overtaken.number}, {own_score}, now has rank {overtaken.rank}."
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
        if other.rank > entry.rank and (best_us is None or other.score_us < best_us)
    ]


class Notice(NamedTuple):
    """A message to one participant, and the number of the submission that they may appeal."""

    text: str
    appeal: int | None = None
