"""How a duel of two files ended, in words."""

import msgspec

from shared.telling.duels import difference_text
from warpboard.domain.answers import Run
from warpboard.domain.outcome import troubles
from warpboard.domain.units import seconds_text


class Duel(msgspec.Struct, frozen=True, kw_only=True):
    """What a duel found: `winner` is A, B or equal, "" if the side `failed` did not pass.

    `ratio` is the time of A over that of B, with its 95 % interval.
    """

    winner: str
    failed: str = ""
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    pairs_us: list[tuple[float, float]] = []


class DuelRun(Run, frozen=True, kw_only=True):
    """The end of a duel here; no `duel` where there was no verdict."""

    duel: Duel | None = None


def duel_lines(names: tuple[str, str], run: DuelRun) -> list[str]:
    """The end of a duel of two files, A and B, in lines."""
    took = f" in {seconds_text(run.took_s)}" if run.took_s is not None else ""
    tier = f", tier {run.tier}" if run.tier else ""
    found = run.duel
    ending = f"A {names[0]}, B {names[1]}: {run.verdict or 'no verdict'}"
    head = f"{ending} (duel, isolation {run.level}{tier}){took}"
    if found is None or found.ratio is None or found.interval is None:
        return [head, *troubles(run)]
    low, high = found.interval
    ratio = f"time of A over time of B {found.ratio:.4f} ({low:.4f} to {high:.4f}, 95 %)"
    return [head, _result_line(names, found), f"{ratio}, {len(found.pairs_us)} pairs of blocks"]


def _result_line(names: tuple[str, str], found: Duel) -> str:
    assert found.ratio is not None, "asked only of a duel that both sides passed"
    assert found.interval is not None, "asked only of a duel that both sides passed"
    if found.winner == "equal":
        return f"{names[0]} and {names[1]} cannot be told apart"
    first, second = names if found.winner == "A" else names[::-1]
    return f"{first} is faster than {second}: {difference_text(found.ratio, found.interval)}"
