"""What everybody is told of leaderboards, in words."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from discord_edge.domain.statement import drawn
from discord_edge.domain.wording import CONTENT_MAX, NOWHERE, escaped
from shared.telling.ranks import TIED, pooled_text, rank_text
from shared.telling.units import harmless, interval_text, time_text

MEDALS = ("🥇", "🥈", "🥉")
PLACES_MAX = 10
STATEMENT_MAX = 1200
NAME_MAX = 100
ACTIVE = "active"
HIDDEN = "hidden"
BEGINNER = "beginner"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a leaderboard; times are in microseconds."""

    rank: int
    submission: str
    number: int
    score_us: float
    account: str = ""
    low_us: float | None = None
    high_us: float | None = None
    participant: str | None = None
    is_tied: bool = False
    pooled_over: list[int] = []
    tier: str | None = None


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """A leaderboard as everybody sees it, best first."""

    problem: str
    gpu: str
    items: list[Entry]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a problem's post says of it."""

    slug: str
    title: str
    number: int
    gpus: list[str]
    state: str
    deadline_at: datetime | None = None
    statement: str = ""
    tags: list[str] | None = None
    # What the last rejudge came to; it is kept here, for no answer says it.
    rejudge: str = ""

    @property
    def is_calm(self) -> bool:
        """Whether it is for beginners: who is ahead is not made much of."""
        return BEGINNER in (self.tags or ())


class Rejudge(msgspec.Struct, frozen=True, kw_only=True):
    """What a rejudge that counts was about: results that were made anew, and those it changed."""

    problem: str
    from_version: int
    to_version: int
    submissions: int
    changed: int


def _who(entry: Entry) -> str:
    return escaped(entry.participant or "somebody", 60)


def line(entry: Entry, board: Ranking) -> str:
    """A ranked result that is on its leaderboard now, in a line.

    >>> ada = Entry(rank=2, submission="s", number=7, score_us=12.5, participant="ada")
    >>> line(ada, Ranking(problem="sort", gpu="H100", items=[ada, ada]))
    '🥈 **ada** is on place 2 of `sort` on H100: **12.5 µs** · #7'
    """
    rank = rank_text(entry.rank, is_tied=entry.is_tied)
    place = f"is on place {rank}"
    if entry.rank <= len(MEDALS):
        mark = MEDALS[entry.rank - 1]
    elif entry.rank <= PLACES_MAX:
        mark = "🏁"
    else:
        mark, place = "📈", f"has a new best, place {rank}"
    first = ", the first valid entry" if len(board.items) == 1 else ""
    where = f"`{board.problem}` on {escaped(board.gpu, 40)}"
    score = f"**{time_text(entry.score_us)}**"
    return f"{mark} **{_who(entry)}** {place} of {where}: {score}{first} · #{entry.number}"


def slower(entry: Entry, board: Ranking, number: int, score_us: float) -> str:
    """A valid ranked result that is not its participant's best, in a line.

    >>> ada = Entry(rank=2, submission="s", number=7, score_us=12.5, participant="ada")
    >>> slower(ada, Ranking(problem="sort", gpu="H100", items=[ada]), 9, 14.0)
    '✔️ **ada** has 14 µs on `sort`, H100, valid but slower than their 12.5 µs on place 2 · #9'
    """
    where = f"`{board.problem}`, {escaped(board.gpu, 40)}"
    rank = rank_text(entry.rank, is_tied=entry.is_tied)
    best = f"{time_text(entry.score_us)} on place {rank}"
    than = f"valid but slower than their {best}"
    if number in entry.pooled_over:
        score_us = entry.score_us
        than = f"{pooled_text(entry.pooled_over).removeprefix(', ')}, on place {rank}"
    return f"✔️ **{_who(entry)}** has {time_text(score_us)} on {where}, {than} · #{number}"


def thread_name(entry: Entry, board: Ranking) -> str:
    """What the thread of a ranked result is called."""
    name = " ".join(harmless(entry.participant or "somebody").split())[:50]
    return f"{board.problem} · {name} · {board.gpu}"[:NAME_MAX]


def detail(entry: Entry) -> str:
    """A ranked result in a few lines."""
    interval = None
    if entry.low_us is not None and entry.high_us is not None:
        interval = (entry.low_us, entry.high_us)
    sure = f" ({interval_text(interval)})" if interval else ""
    pooled = pooled_text(entry.pooled_over)
    tier = f"\nTiming tier {escaped(entry.tier, 20)}" if entry.tier else ""
    tied = f": {TIED}" if entry.is_tied else ""
    place = f"Place {rank_text(entry.rank, is_tied=entry.is_tied)}{tied}"
    score = f"{time_text(entry.score_us)}{sure}{pooled}"
    return f"Submission #{entry.number}: score {score}\n{place}{tier}"


def podium(board: Ranking, before: Sequence[str] | None, *, is_record: bool) -> str:
    """Who is ahead on a leaderboard, and what of it is new; empty if all is as it was told.

    `before` are the accounts on the first places when that was told last, None if nobody knows.

    >>> ada = Entry(rank=1, submission="s", number=7, score_us=12.5, account="a", participant="ada")
    >>> podium(Ranking(problem="sort", gpu="H100", items=[ada]), [], is_record=True)
    'A new record on `sort`, H100: **ada** took the first place.\\n🥇 **ada** 12.5 µs'
    """
    first = board.items[: len(MEDALS)]
    now = [one.account for one in first]
    if before is not None and list(before) == now and not is_record:
        return ""
    what = "A new record on" if is_record else "The podium changed on"
    said = ", ".join([] if before is None else _moves(board, list(before)))
    about = f"{what} `{board.problem}`, {escaped(board.gpu, 40)}:"
    shown = [one for one in first if one.rank <= len(MEDALS)]
    rows = [f"{MEDALS[one.rank - 1]} **{_who(one)}** {time_text(one.score_us)}" for one in shown]
    return "\n".join([f"{about} {said}." if said else about, *rows])


def _moves(board: Ranking, before: list[str]) -> list[str]:
    """Who took the first place, who entered the first three, and who fell out of them."""
    first = board.items[: len(MEDALS)]
    said = [
        f"**{_who(one)}** {'took the first place' if place == 0 else 'entered the top 3'}"
        for place, one in enumerate(first)
        if one.account not in before or (place == 0 and before[0] != one.account)
    ]
    now = {one.account for one in first}
    fell = [one for one in board.items if one.account in before and one.account not in now]
    return [*said, *(f"**{_who(one)}** fell out" for one in fell)]


def rejudged(rejudge: Rejudge, reason: str) -> str:
    """That results were made anew, and count.

    >>> rejudged(Rejudge(problem="s", from_version=1, to_version=2, submissions=9, changed=1), "")
    'Rejudged under version 2: 9 submissions were run again, and 1 result is another one.'
    """
    again = f"{rejudge.submissions} submission{'s were' if rejudge.submissions != 1 else ' was'}"
    other = "results are others" if rejudge.changed != 1 else "result is another one"
    why = f" {escaped(reason, 300)}" if reason else ""
    return (
        f"Rejudged under version {rejudge.to_version}: {again} run again, "
        f"and {rejudge.changed} {other}.{why}"
    )


def post(facts: Facts) -> str:
    """The first message of a problem's post."""
    head = [
        f"**{escaped(facts.title, 150)}** · `{facts.slug}`, version {facts.number}",
        f"{_state(facts)} · GPU types: {escaped(', '.join(facts.gpus) or 'none', 150)}",
        *([facts.rejudge] if facts.rejudge else []),
    ]
    last = f"`/leaderboard task` has its files, `/leaderboard show` who is ahead ({facts.slug})."
    # Escaping may double what stands around the statement, which has what is left.
    room = min(STATEMENT_MAX, CONTENT_MAX - len("\n".join([*head, "", "", last])))
    shown = drawn(harmless(facts.statement).replace("@", f"@{NOWHERE}"), room)
    return "\n".join([*head, "", shown, "", last])


def _state(facts: Facts) -> str:
    if facts.state == HIDDEN:
        return "Not public any more"
    if facts.state != ACTIVE:
        return "Closed: it takes nothing in any more"
    if facts.deadline_at is None:
        return "Open"
    at = int(facts.deadline_at.timestamp())
    return f"Open until <t:{at}:F> (<t:{at}:R>)"


def changes(before: Facts, after: Facts) -> str:
    """What is not as it was, in a message; empty if all that counts is.

    >>> sort = Facts(slug="sort", title="Sort", number=1, gpus=["H100"], state="active")
    >>> changes(sort, msgspec.structs.replace(sort, number=2))
    'Version 2 is out.'
    """
    said: list[str] = []
    if after.state != before.state:
        said.append(f"{_state(after)}.")
    elif after.deadline_at != before.deadline_at:
        said.append(_deadline(after))
    if after.number != before.number:
        said.append(f"Version {after.number} is out.")
    if _kinds(after.gpus) != _kinds(before.gpus):
        said.append(f"GPU types are now: {escaped(', '.join(after.gpus) or 'none', 200)}.")
    if not said and (after.title, after.statement) != (before.title, before.statement):
        said.append("The description is another one.")
    return "\n".join(said)


def _kinds(gpus: Sequence[str]) -> list[str]:
    return sorted(gpus)


def _deadline(facts: Facts) -> str:
    if facts.deadline_at is None:
        return "There is no deadline any more."
    at = int(facts.deadline_at.timestamp())
    return f"The deadline is now <t:{at}:F> (<t:{at}:R>)."
