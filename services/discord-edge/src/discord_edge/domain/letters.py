"""What one participant is told of what concerns them alone, in words."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from discord_edge.domain.news import Entry, Ranking
from discord_edge.domain.wording import escaped
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
from shared.telling.units import time_text

OFF, THREAD = "off", "thread"
# Escaping may double both, and a letter has 2000 characters.
RULE_MAX, REASON_MAX = 200, 600
HELD = " is held: it is off its leaderboard until somebody has looked at it"
GONE = " is disqualified: it is off its leaderboard"


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A participant, by their id on Discord, and how they want to be told of things."""

    participant_id: str
    discord: str | None = None
    preferences: dict[str, str] = {}

    def wants(self, notice: str) -> bool:
        """Whether they are told of something that is told to who wants it."""
        return self.discord is not None and self.preferences.get(notice, OFF) != OFF


class Owner(Person, frozen=True, kw_only=True):
    """Whose a submission is, and what it was sent for."""

    number: int
    problem: str
    gpu: str
    mode: str
    baseline: str = ""

    @property
    def is_ranked(self) -> bool:
        """Whether it is on its way to a leaderboard."""
        return self.mode == "ranked" and not self.baseline


def decided(fact: Fact, owner: Owner) -> tuple[str, bool] | None:
    """What people, or a rule, decided of a submission, and whether one may appeal.

    None of what is not told.
    """
    rule, reason, is_bad = "", getattr(fact, "reason", ""), False
    match fact:
        case SubmissionFinished(is_held=True):
            what, is_bad = HELD, True
        case SubmissionHeld():
            what, rule, is_bad = HELD, fact.rule, True
        case SubmissionDisqualified():
            what, rule, is_bad = GONE, fact.rule, True
        case SubmissionReleased():
            what = " is held no longer, and may be ranked"
        case SubmissionRestored():
            what = " is disqualified no longer, and may be ranked"
        case AppealDecided(is_accepted=is_accepted):
            answer = "accepted: it may be ranked" if is_accepted else "rejected"
            what = f": somebody looked again, and your appeal is {answer}"
        case _:
            return None
    lines = [f"Your submission #{owner.number} ({where(owner.problem, owner.gpu)}){what}."]
    lines += [f"Rule: {escaped(rule, RULE_MAX)}"] if rule else []
    lines += [f"Reason: {escaped(reason, REASON_MAX)}"] if reason else []
    return "\n".join(lines), is_bad


def answered(fact: BanAppealDecided) -> str:
    """What became of an appeal against a ban.

    >>> answered(BanAppealDecided(is_accepted=True, reason="a mistake"))
    'Somebody looked again at your ban, and your appeal is accepted.\\nReason: a mistake'
    """
    answer = "accepted" if fact.is_accepted else "rejected"
    why = escaped(fact.reason, REASON_MAX)
    return f"Somebody looked again at your ban, and your appeal is {answer}.\nReason: {why}"


def how_to_appeal(number: int) -> str:
    """By which ways one asks to look again; one of them is the button below."""
    return f"If that is wrong, appeal: by the button, or `warpboard appeal {number} TEXT`."


def finished(owner: Owner, headline: str) -> str:
    """That a submission is over, and how it ended."""
    place = where(owner.problem, owner.gpu)
    return f"Your submission #{owner.number} ({place}, {owner.mode}) is over: {headline}"


def overtaken(passed: Entry, by: Entry, board: Ranking) -> str:
    """That somebody is ahead now of who was not behind them.

    >>> ada = Entry(rank=1, submission="a", number=7, score_us=10.0, participant="ada")
    >>> eve = Entry(rank=2, submission="b", number=3, score_us=12.5, participant="eve")
    >>> overtaken(eve, ada, Ranking(problem="sort", gpu="H100", items=[ada, eve]))
    '**ada** overtook you on `sort`, H100, with #7: 10 µs. Your #3, 12.5 µs, is on place 2 now.'
    """
    who = escaped(by.participant or "somebody", 60)
    score, own = time_text(by.score_us), time_text(passed.score_us)
    return (
        f"**{who}** overtook you on {where(board.problem, board.gpu)}, with #{by.number}: {score}. "
        f"Your #{passed.number}, {own}, is on place {passed.rank} now."
    )


def near(slug: str, deadline_at: datetime) -> str:
    """That a leaderboard takes nothing in soon."""
    at = int(deadline_at.timestamp())
    return f"`{slug}` takes submissions in until <t:{at}:F> (<t:{at}:R>)."


def where(problem: str, gpu: str) -> str:
    """A leaderboard by its name."""
    return f"`{problem}`, {escaped(gpu, 40)}"


def behind(entry: Entry, board: Ranking, before_us: float | None) -> Sequence[Entry]:
    """The entries that an entry is ahead of, and that were not behind it before.

    Units: `before_us` is the best that its participant had, None if it is their first.

    >>> rows = [Entry(rank=n, submission=str(n), number=n, score_us=10.0 * n) for n in (1, 2, 3)]
    >>> board = Ranking(problem="sort", gpu="H100", items=rows)
    >>> [one.rank for one in behind(rows[0], board, 25.0)]
    [2]
    """
    return [
        one
        for one in board.items
        if one.rank > entry.rank and (before_us is None or one.score_us < before_us)
    ]
