"""What a contest shows to everybody at an instant: which ranks, and whose sources."""

from datetime import datetime
from itertools import takewhile
from typing import NamedTuple

import msgspec

from shared.contests.definition import Contest, Phase, Sources


class ShownRanks(NamedTuple):
    """Which ranks everybody sees: none, or those of what was received before an instant.

    `until_at` is None where the ranks are shown as they are.
    """

    is_hidden: bool = False
    until_at: datetime | None = None

    @property
    def is_live(self) -> bool:
        """Whether the ranks are shown as they are."""
        return not self.is_hidden and self.until_at is None


def find_shown_ranks(contest: Contest, at: datetime) -> ShownRanks:
    """Return which ranks of a contest everybody sees at an instant.

    The phase that started last decides, after its end too, so that nothing is shown between two
    phases that both hide it. Several frozen phases in a row show the standing of the first one's
    start. Before its first phase a contest hides nothing.
    """
    started = _started_phases(contest, at)
    if not started or started[0].ranks == "live":
        return ShownRanks()
    if started[0].ranks == "hidden":
        return ShownRanks(is_hidden=True)
    frozen = list(takewhile(lambda phase: phase.ranks == "frozen", started))
    # What was hidden before a freeze stays hidden in it.
    before = started[len(frozen) : len(frozen) + 1]
    if before and before[0].ranks == "hidden":
        return ShownRanks(is_hidden=True)
    return ShownRanks(until_at=frozen[-1].starts_at)


class Embargo(msgspec.Struct, frozen=True):
    """What a contest hides on a problem from an instant until another, None for ever.

    Whoever may not see the ranks as they are sees none on the problem's own leaderboards.
    """

    problem: str
    from_at: datetime
    until_at: datetime | None
    hides_ranks: bool
    sources: Sources

    def is_at(self, at: datetime) -> bool:
        """Whether an instant is in its interval."""
        return self.from_at <= at and (self.until_at is None or at < self.until_at)


def list_embargoes(contest: Contest) -> list[Embargo]:
    """Return what a contest hides, for each problem and each interval between starts of phases."""
    starts = [phase.starts_at for phase in contest.phases]
    return [
        Embargo(
            problem=problem.slug,
            from_at=phase.starts_at,
            until_at=end_at,
            hides_ranks=not find_shown_ranks(contest, phase.starts_at).is_live,
            sources=phase.sources,
        )
        for phase, end_at in zip(contest.phases, [*starts[1:], None], strict=True)
        for problem in contest.problems
    ]


def _started_phases(contest: Contest, at: datetime) -> list[Phase]:
    """The phases that started by an instant, the last one first."""
    return [phase for phase in reversed(contest.phases) if phase.starts_at <= at]
