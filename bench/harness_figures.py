"""What the runs of `bench.harness` show: each figure from the records of one part."""

import itertools
import statistics
from collections.abc import Iterable, Sequence
from math import log, prod

from bench.figures import Figure, at_least, at_most
from bench.harness_runs import Record
from bench.intervals import share_interval
from ranker.domain.places import ScoredEntry, assign_places
from ranker.domain.score import error_of_difference, t_quantile

SPREAD_PERCENT_MAX = 5.0
# Shorter kernels have no goal: of their time the handshake is a large part.
LONG_US_MIN = 500.0
# A ranked run is as precise as 1 %, so less than twice that cannot always be told apart.
ORDERED_PERCENT_MIN = 2
TWINS_APART_MAX = 0.01
COVERAGE_MIN = 0.93
MEASURED_SHARE_MIN = 0.4
MODES_S_MAX = {"benchmark": 1.0, "ranked": 4.0}
OTHERS = "other tenants of a shared machine move the times themselves (docs/adr/timing.md)"
Pair = tuple[Record, Record]


def claims_order(first: Record, second: Record) -> bool:
    """Whether a leaderboard ranks two runs apart."""
    entries = [
        ScoredEntry(number, run.score_us, run.error, run.freedom, run.delta)
        for number, run in enumerate((first, second))
    ]
    return not assign_places(entries)[0].is_tied


def is_wrong(first: Record, second: Record) -> bool:
    """Whether a leaderboard ranks two runs in the wrong order."""
    apart = (first.score_us - second.score_us) * (first.kernel.count - second.kernel.count)
    return claims_order(first, second) and apart < 0


def covers(first: Record, second: Record) -> bool:
    """Whether the interval of the ratio of two scores contains the ratio of the true times."""
    missed = log(first.score_us / second.score_us) - log(first.truth_us / second.truth_us)
    error, freedom = error_of_difference(
        [(first.error, first.freedom), (second.error, second.freedom)]
    )
    return abs(missed) <= t_quantile(freedom) * error


def _are_twins(first: Record, second: Record) -> bool:
    return first.kernel.count == second.kernel.count


def compare(records: Sequence[Record]) -> list[Figure]:
    """Return spread, order, twins and coverage of kernels of similar work under all loads."""
    scored = [run for run in records if run.score_us]
    sizes = list(dict.fromkeys(run.size for run in scored))
    figures = [figure for size in sizes for figure in _compare_size(size, scored)]
    # Kernels of other sizes are on other leaderboards.
    pairs = [pair for pair in itertools.combinations(scored, 2) if pair[0].size == pair[1].size]
    apart = [pair for pair in pairs if not _are_twins(*pair)]
    equal = [pair for pair in pairs if _are_twins(*pair)]
    claims = [pair for pair in apart if claims_order(*pair)]
    twins_apart = _share(claims_order(*pair) for pair in equal)
    covered = _share(run.interval_us[0] <= run.truth_us <= run.interval_us[1] for run in scored)
    return [
        *figures,
        Figure(name="strict orders that are claimed", measured=len(claims)),
        Figure(
            name="strict orders that are wrong",
            measured=sum(is_wrong(*pair) for pair in claims),
            goal=at_most(0),
            is_held=True,
        ),
        Figure(
            name="twins told apart",
            measured=twins_apart,
            interval=share_interval(twins_apart, _runs_of(equal) // 2),
            goal=at_most(TWINS_APART_MAX),
            note=OTHERS,
        ),
        Figure(
            name="intervals that contain the time alone",
            measured=covered,
            interval=share_interval(covered, len(scored)),
        ),
        Figure(name="runs without a score", measured=len(records) - len(scored)),
    ]


def _compare_size(size: str, scored: Sequence[Record]) -> list[Figure]:
    """Return the figures of one kernel and of those that do a few percent more work."""
    runs = [run for run in scored if run.size == size]
    least = min(run.kernel.count for run in runs)
    base = [run for run in runs if run.kernel.count == least]
    single = [run.score_us for run in base if run.kernel == base[0].kernel]
    is_long = base[0].truth_us >= LONG_US_MIN
    covered = _share(covers(*pair) for pair in itertools.combinations(runs, 2))
    figures = [
        Figure(
            name=f"{size}: across-load spread",
            measured=100 * (max(single) / min(single) - 1),
            unit="%",
            goal=at_most(SPREAD_PERCENT_MAX) if is_long else None,
            note=OTHERS,
        ),
        Figure(
            name=f"{size}: intervals of a ratio of two scores that contain the true one",
            measured=covered,
            interval=share_interval(covered, max(1, len(runs) // 2)),
            goal=at_least(COVERAGE_MIN) if is_long else None,
            note=OTHERS,
        ),
    ]
    for count in sorted({run.kernel.count for run in runs} - {least}):
        more = [run for run in runs if run.kernel.count == count]
        # Every run with every other, as a leaderboard compares runs of any time.
        pairs = list(itertools.product(base, more))
        right = _share(fast.score_us < slow.score_us for fast, slow in pairs)
        percent = round(100 * (count / least - 1))
        figures.append(
            Figure(
                name=f"{size}: {percent} % more work ordered right",
                measured=right,
                # Too wide for all pairs of two samples.
                interval=share_interval(right, min(len(base), len(more))),
                goal=at_least(1.0) if is_long and percent >= ORDERED_PERCENT_MIN else None,
                note=OTHERS,
            )
        )
        claimed = _share(claims_order(*pair) for pair in pairs)
        figures.append(Figure(name=f"{size}: {percent} % more work told apart", measured=claimed))
    return figures


def _runs_of(pairs: Sequence[Pair]) -> int:
    """Return how many runs are in these pairs, at least two: half as many are independent."""
    return max(2, len({id(run) for pair in pairs for run in pair}))


def _share(claims: Iterable[bool]) -> float:
    values = list(claims)
    return sum(values) / len(values) if values else 0.0


def compare_truth(records: Sequence[Record]) -> list[Figure]:
    """Return the score over the true time of each kind of kernel under each load."""
    figures = []
    groups = dict.fromkeys((run.size, run.load) for run in records)
    for size, load in groups:
        runs = [run for run in records if (run.size, run.load) == (size, load) and run.score_us]
        ratios = [run.score_us / run.truth_us for run in runs]
        if ratios:
            mean = prod(ratios) ** (1 / len(ratios))
            name = f"{size}, {load} busy processes: score over truth"
            figures.append(Figure(name=name, measured=mean))
    return figures


def summarize_modes(records: Sequence[Record]) -> list[Figure]:
    """Return what a run of each mode costs, and how much of its timed stage is timed calls."""
    figures = []
    for mode in dict.fromkeys(run.mode for run in records):
        runs = [run for run in records if run.mode == mode]
        limit = MODES_S_MAX.get(mode)
        figures += [
            Figure(
                name=f"{mode}: wall time",
                measured=statistics.median(run.took_s for run in runs),
                unit="s",
                goal=at_most(limit) if limit else None,
                note=OTHERS,
            ),
            Figure(
                name=f"{mode}: processor time",
                measured=statistics.median(run.cpu_s for run in runs),
                unit="s",
            ),
        ]
        timed = [run for run in runs if run.score_us]
        if timed:
            figures += [
                Figure(
                    name=f"{mode}: measured share of the timed stage",
                    measured=statistics.median(run.measured_share for run in timed),
                    goal=at_least(MEASURED_SHARE_MIN),
                    note=OTHERS,
                ),
                Figure(
                    name=f"{mode}: timed calls",
                    measured=statistics.median(run.samples for run in timed),
                ),
            ]
    nulls = [run.null_us for run in records if run.null_us]
    if nulls:
        figures.append(Figure(name="a null call", measured=statistics.median(nulls), unit="us"))
    return figures
