"""Tables of queues, quotas, histories and records, for participants."""

from collections.abc import Sequence
from datetime import tzinfo

from shared.telling.ranks import numbers_text
from warpboard.domain.answers import Moment, Submission
from warpboard.domain.oversight import Balance, Expected, History, Pool, Record
from warpboard.domain.tables import Table
from warpboard.domain.units import (
    NOTHING,
    about_text,
    interval_text,
    one_line,
    time_text,
    when,
)

DAY_S = 86400


def quotas(found: Sequence[Balance], zone: tzinfo | None = None) -> Table:
    """What is left of each limit."""
    rows = [
        (
            one.bucket,
            str(one.used),
            str(one.limit),
            str(one.remaining),
            window_text(one.window_s),
            when(one.reset_at, zone),
        )
        for one in found
    ]
    return Table("quotas", ("bucket", "used", "limit", "left", "per", "resets"), rows)


def left(balance: Balance, zone: tzinfo | None = None) -> str:
    """What is left of one limit, in words.

    >>> left(Balance(bucket="p.CPU.ranked", limit=5, used=2, remaining=3, window_s=86400))
    '3 of 5 left of p.CPU.ranked per day'
    """
    until = f", which resets at {when(balance.reset_at, zone)}" if balance.reset_at else ""
    of = f"{balance.remaining} of {balance.limit} left of {balance.bucket}"
    return f"{of} per {window_text(balance.window_s)}{until}"


def window_text(window_s: float) -> str:
    """The length of a quota's window.

    >>> window_text(86400), window_text(3600), window_text(172800), window_text(90)
    ('day', 'hour', '2 days', '90 s')
    """
    for length, name in ((DAY_S, "day"), (3600, "hour"), (60, "minute")):
        count, rest = divmod(window_s, length)
        if count >= 1 and not rest:
            return name if count == 1 else f"{count:.0f} {name}s"
    return f"{window_s:g} s"


def pools(found: Sequence[Pool]) -> Table:
    """Each GPU type's queue."""
    rows = [
        (
            one.gpu,
            str(one.depth),
            _count(one.agents_free),
            _count(one.agents_busy),
            about_text(one.run_s_p50 or None),
            about_text(one.run_s_p90 or None),
            f"paused: {one_line(one.paused)}" if one.paused is not None else "open",
        )
        for one in found
    ]
    columns = ("GPU type", "waiting", "free", "busy", "run usually", "9 of 10 runs", "state")
    return Table("queues", columns, rows)


def _count(number: int | None) -> str:
    return NOTHING if number is None else str(number)


def expected(gpu: str, found: Sequence[Expected]) -> Table:
    """Who waits for a GPU type, in order, how long, and why."""
    rows = [
        (
            str(one.position),
            str(one.number or one.submission or NOTHING),
            about_text(one.eta_s),
            about_text(one.eta_p90_s),
            one_line(one.why or ""),
        )
        for one in found
    ]
    columns = ("place", "number", "begins in", "9 of 10 within", "why")
    return Table(f"waiting for {gpu}", columns, rows)


def history(found: History, zone: tzinfo | None = None) -> Table:
    """A participant's ranked submissions on one leaderboard, newest first."""
    rows = [
        (
            str(one.number),
            when(one.received_at, zone),
            one_line(one.name, 40),
            one.verdict or one.outcome or NOTHING,
            time_text(one.score_us),
            NOTHING
            if one.low_us is None or one.high_us is None
            else interval_text((one.low_us, one.high_us)),
            time_text(one.run_us),
            numbers_text(one.pooled_over) or NOTHING,
            one.grade or NOTHING,
            _worth(one.counts, one.was_best, one.code),
        )
        for one in found.items
    ]
    columns = (
        *("number", "when", "file", "verdict", "score", "interval"),
        *("this run", "pooled over", "grade", "standing"),
    )
    title = f"{found.participant} in {found.problem} on {found.gpu}, version"
    return Table(f"{title} {found.problem_version}", columns, rows)


def _worth(counts: bool, was_best: bool, code: str | None) -> str:
    """What a submission was to its participant.

    >>> _worth(True, True, "ranked"), _worth(True, False, "ranked"), _worth(False, False, "held")
    ('best so far', 'counts', 'does not count: held')
    """
    if not counts:
        return f"does not count: {code or NOTHING}"
    return "best so far" if was_best else "counts"


def records(problem: str, gpu: str, found: Sequence[Record], zone: tzinfo | None = None) -> Table:
    """The records of a leaderboard, newest first."""
    rows = [
        (
            when(one.at, zone),
            one.participant or NOTHING,
            time_text(one.score_us),
            time_text(one.previous_us),
            str(one.number),
            "stands" if one.is_standing else "taken away",
        )
        for one in found
    ]
    columns = ("when", "participant", "score", "before", "number", "state")
    return Table(f"records of {problem} on {gpu}", columns, rows)


def trace(found: Submission, zone: tzinfo | None = None) -> Table:
    """Every event of a submission, its jobs and its runs, with who said it and how long after."""
    rows, before = [], None
    for one in found.timeline:
        rows.append((str(one.seq), when(one.at, zone), _after(one, before), *_said(one)))
        before = one
    columns = ("seq", "when", "after", "event", "actor", "note")
    return Table(f"trace of submission {found.number}", columns, rows)


def _after(one: Moment, before: Moment | None) -> str:
    """How long after the event before it; clocks of several machines may disagree."""
    return "" if before is None else f"+{(one.at - before.at).total_seconds():.3f} s"


def _said(one: Moment) -> tuple[str, ...]:
    return (one.type, one_line(one.actor) or NOTHING, one_line(one.note))
