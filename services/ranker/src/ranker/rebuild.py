"""The read models folded anew from event 1, beside the live ones, and compared row by row."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ranker.service import Metrics, Models, News, project
from shared.event_log import EventLog

DIFFERENCES_MAX = 20


class Picture(NamedTuple):
    """Every entry with its place, and every submission's outcome, at one sequence."""

    seq: int
    entries: list[dict[str, Any]]
    outcomes: list[dict[str, Any]]


class Pictured(Models, Protocol):
    """Read models that can be looked at as a whole."""

    async def picture(self) -> tuple[int, list[dict[str, Any]], list[dict[str, Any]]]:
        """The sequence, the entries and the outcomes, of one moment."""
        ...


@dataclass(frozen=True)
class Comparison:
    """Both projections at one sequence."""

    seq: int
    entries: int
    submissions: int
    differences: list[dict[str, Any]]


async def compare(log: EventLog, live: Pictured, fresh: Pictured, metrics: Metrics) -> Comparison:
    """Fold everything up to the live checkpoint into `fresh` and say where the two differ."""
    kept = Picture(*await live.picture())
    if kept.seq > 0:
        async for _ in project(log, fresh, News(), metrics, until=kept.seq):
            pass
    made = Picture(*await fresh.picture())
    found = _differences("entry", kept.entries, made.entries)
    found += _differences("submission", kept.outcomes, made.outcomes)
    return Comparison(kept.seq, len(made.entries), len(made.outcomes), found[:DIFFERENCES_MAX])


def _differences(
    kind: str, kept: list[dict[str, Any]], made: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Rows at the same place that are not equal, and rows that one side lacks."""
    longest = max(len(kept), len(made))
    pairs = (
        (kept[i] if i < len(kept) else None, made[i] if i < len(made) else None)
        for i in range(longest)
    )
    return [{"kind": kind, "live": a, "rebuilt": b} for a, b in pairs if a != b]
