"""What scores are compared with: baselines, rooflines, milestones, records and podiums."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, fsum, inf, isfinite, log, nextafter
from typing import Any, NamedTuple

from harness.ranking_rules import score_us, timed_cases
from shared.events import CaseResult, Milestone, MilestoneReached, PodiumChanged, RecordSet, Roof
from shared.problems.goals import CASES_PASSED, ROOFLINE, SCORE, VS_BASELINE, comparison_holds
from shared.problems.roofline import Work, compare_to_roofline, roofline_us

Row = Mapping[str, Any]
# Outcomes that say something about the baseline; other runs were cancelled or the platform failed.
VERDICT_OUTCOMES = ("passed", "failed", "timed_out")
TIME = "time"
# The code of a baseline that passed: shown beside the rows, and never ranked.
BASELINE = "baseline"
# The code of a run that passed after the deadline: ranked on the practice leaderboard only.
PRACTICE = "practice"
# The code of a run that stopped early, since it could not become its participant's best.
STOPPED = "stopped_early"
# The code of a run with a metric that is out of its problem's bounds.
OVER_LIMIT = "over_limit"
PODIUM_SIZE = 3


def current_runs(runs: Iterable[Row]) -> dict[str, Row]:
    """The run that counts for each baseline, from all its runs, newest first.

    The newest run with a verdict counts, or the newest run if none has one: while a repetition is
    waiting, the previous result stays.
    """
    current: dict[str, Row] = {}
    for run in runs:
        previous = current.get(run["name"])
        if previous is None or (
            previous["outcome"] not in VERDICT_OUTCOMES and run["outcome"] in VERDICT_OUTCOMES
        ):
            current[run["name"]] = run
    return current


def is_measured(run: Row) -> bool:
    """Whether a run gives its baseline a score."""
    return run["code"] == BASELINE and run["score_us"] is not None


def scores_us(standing: Mapping[str, Row]) -> dict[str, float]:
    """The score of each baseline that has one."""
    return {name: run["score_us"] for name, run in standing.items() if is_measured(run)}


def speedup(baseline_us: float | None, own_us: float | None) -> float | None:
    """How many times faster than a baseline a time is; None if either is not a time.

    >>> speedup(30.0, 10.0), speedup(10.0, 20.0), speedup(None, 10.0), speedup(10.0, 0.0)
    (3.0, 0.5, None, None)
    """
    if baseline_us is None or own_us is None or not (baseline_us > 0 and own_us > 0):
        return None
    return baseline_us / own_us


# The speed-ups p of fast_p, as KernelBench reports them.
FAST_P = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)


def fast_shares(speedups: Sequence[float | None], problems_count: int) -> dict[str, float]:
    """fast_p over a set of problems, by p; a speed-up for each problem with an entry.

    It is None if the baseline has no time: the entry is correct, and as fast as nothing.

    >>> fast_shares([3.0, 0.9, None], 4)
    {'0': 0.75, '0.5': 0.5, '0.8': 0.5, '1': 0.25, '1.5': 0.25, '2': 0.25}
    """
    known = [ratio for ratio in speedups if ratio is not None]
    counts = {p: sum(ratio > p for ratio in known) if p else len(speedups) for p in FAST_P}
    return {f"{p:g}": count / problems_count for p, count in counts.items()}


def case_times_us(cases: Sequence[Row]) -> dict[str, float]:
    """The time of each timed case of a run by name; hidden cases are left out."""
    return {
        case["name"]: case["time_us"]
        for case in cases
        if case["stage"] == TIME and not case.get("is_hidden") and case.get("time_us")
    }


def case_speedups(case: Row, baselines: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """How many times faster than each baseline a case was, where both have a time."""
    own_us = case_times_us([case]).get(case["name"])
    speedups = {name: speedup(times.get(case["name"]), own_us) for name, times in baselines.items()}
    return {name: ratio for name, ratio in speedups.items() if ratio is not None}


BELOW_FLOOR = "below_physical_floor"
# The run may break the problem's shortcut policy.
POLICY_REVIEW = "policy_review"
# Held with a score, which counts as soon as an operator releases it.
HELD_WITH_SCORE = (BELOW_FLOOR, POLICY_REVIEW)
# The floor of GPU types that are not named.
ANY_GPU = ""


def case_floors_us(roofs: Sequence[Roof], gpu: str) -> dict[str, float]:
    """The lower bound of each case's time on a GPU type, as its version was published.

    >>> case_floors_us([Roof(case="n=1", floors_us={"H200": 2.0}), Roof(case="n=2")], "H200")
    {'n=1': 2.0}
    """
    floors_us = {
        roof.case: roof.floors_us.get(gpu, roof.floors_us.get(ANY_GPU, 0.0)) for roof in roofs
    }
    return {case: least_us for case, least_us in floors_us.items() if least_us > 0}


def find_below_floor(
    timed: Sequence[CaseResult], floors_us: Mapping[str, float]
) -> tuple[CaseResult, float] | None:
    """The first case that was faster than its floor, and the floor; None if there is none."""
    for case in timed:
        least_us = floors_us.get(case.name, 0.0)
        if case.time_us is not None and _least_us(case, case.time_us) < least_us:
            return case, least_us
    return None


def roofline_share(
    roofs: Sequence[Roof], gpu: str, ranking_by: str, scored_us: float
) -> float | None:
    """The share of the roofline that a score reaches; None if a case's roofline is unknown.

    >>> roofs = [Roof(case="n=1", bytes=4.8e6), Roof(case="n=2", bytes=19.2e6)]
    >>> round(roofline_share(roofs, "H200", "geom", 4.0), 6), roofline_share(roofs, "CPU", "geom",
    ...     4.0)
    (0.5, None)
    """
    timed = timed_cases(ranking_by, roofs)
    rooflines_us = [roofline_us(_work(roof), gpu) for roof in timed]
    known = [roof_us for roof_us in rooflines_us if roof_us is not None]
    weights = [roof.weight for roof in timed]
    is_known = known and len(known) == len(rooflines_us)
    total_us = score_us(ranking_by, known, weights) if is_known else None
    return None if total_us is None or not scored_us > 0 else total_us / scored_us


def case_roofline(
    roofs: Sequence[Roof], gpu: str, case: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The roofline figures of a case as plain data; None if it has no time or no roof."""
    roof = next((roof for roof in roofs if roof.case == case["name"]), None)
    time_us = case.get("time_us")
    if roof is None or not time_us or case["stage"] != "time" or not (roof.bytes or roof.flops):
        return None
    figures = compare_to_roofline(_work(roof), gpu, time_us)
    return None if figures is None else asdict(figures)


def _work(roof: Roof) -> Work:
    return Work(roof.case, bytes=roof.bytes, flops=roof.flops, dtype=roof.dtype)


def _least_us(case: CaseResult, time_us: float) -> float:
    """The case's time or, if that is less, the geometric mean of its processes."""
    processes = [time for time in case.process_us if time > 0 and isfinite(time)]
    if not processes:
        return time_us
    return min(time_us, exp(fsum(log(time) for time in processes) / len(processes)))


SECONDS_PER_US = 1e-6
# The query reads slightly more than needed; the decision itself compares exactly.
MARGIN = 1e-6


class Candidate(NamedTuple):
    """A participant who may have reached a milestone: a score in microseconds, or a case count."""

    account: str
    submission: str
    measured: float


class Bounds(NamedTuple):
    """The lowest and highest measure that may reach a milestone, both inclusive."""

    low: float
    high: float


@dataclass(frozen=True)
class MilestoneScale:
    """What scores are compared with on a leaderboard; `roof_us` is the score at the roofline."""

    baselines_us: Mapping[str, float] = field(default_factory=dict)
    roof_us: float | None = None

    def value(self, metric: str, measured: float) -> float | None:
        """The value of a metric for a measure; None if there is nothing to compare it with.

        >>> MilestoneScale({"eager": 30.0}).value("vs_baseline.eager", 10.0)
        3.0
        >>> MilestoneScale().value("score", 2e6)
        2.0
        """
        if metric == CASES_PASSED:
            return measured
        if metric == SCORE:
            return measured * SECONDS_PER_US
        return speedup(self._unit_us(metric), measured)

    def bounds(self, milestone: Milestone) -> Bounds | None:
        """The measures that may reach a milestone; None if no measure can."""
        if milestone.metric == CASES_PASSED:
            return _count_bounds(milestone.op, milestone.value)
        if milestone.metric == SCORE:
            return _score_bounds(
                milestone.value / SECONDS_PER_US, is_from=milestone.op in (">", ">=")
            )
        unit_us = self._unit_us(milestone.metric)
        if unit_us is None:
            return None
        # A share grows as the time shrinks.
        edge = unit_us / milestone.value if milestone.value > 0 else inf
        return _score_bounds(edge, is_from=milestone.op in ("<", "<="))

    def _unit_us(self, metric: str) -> float | None:
        if metric == ROOFLINE:
            return self.roof_us
        return self.baselines_us.get(metric.removeprefix(VS_BASELINE))


def _score_bounds(edge: float, *, is_from: bool) -> Bounds:
    return Bounds(edge * (1 - MARGIN), inf) if is_from else Bounds(0.0, edge * (1 + MARGIN))


def _count_bounds(op: str, value: float) -> Bounds:
    if op in (">", ">="):
        return Bounds(nextafter(value, inf) if op == ">" else value, inf)
    return Bounds(0.0, nextafter(value, -inf) if op == "<" else value)


def milestones_for_gpu(milestones: Iterable[Milestone], gpu: str) -> list[Milestone]:
    """The milestones that can be reached on a GPU type."""
    return [milestone for milestone in milestones if milestone.gpu in ("", gpu)]


def find_reached(
    problem_number: int,
    milestone: Milestone,
    candidates: Iterable[Candidate],
    scale: MilestoneScale,
    known: Collection[str] = (),
) -> list[MilestoneReached]:
    """Who reaches a milestone now; `known` are the accounts that reached it before.

    Of several submissions of a participant the first one counts.
    """
    reached: dict[str, MilestoneReached] = {}
    for candidate in candidates:
        value = scale.value(milestone.metric, candidate.measured)
        is_new = candidate.account not in reached and candidate.account not in known
        if value is not None and is_new and comparison_holds(value, milestone.op, milestone.value):
            reached[candidate.account] = MilestoneReached(
                problem_number=problem_number,
                milestone=milestone.id,
                title=milestone.title,
                account=candidate.account,
                submission=candidate.submission,
                value=value,
            )
    return list(reached.values())


class Leader(NamedTuple):
    """The untied entry at the top; `seq` is the event that gave it its score."""

    submission: str
    run: str
    account: str
    score_us: float
    seq: int


class AnnouncedRecord(NamedTuple):
    """A record that was announced; `disqualified_seq` is the event that disqualified it, if any."""

    submission: str
    score_us: float
    is_standing: bool
    disqualified_seq: int | None


def find_record(
    problem_number: int,
    leader: Leader,
    announced: Sequence[AnnouncedRecord],
    best_of_others_us: float | None,
) -> RecordSet | None:
    """The record that a leader sets, None if it sets none.

    It must be faster than everything that ever held rank 1, announced or not, even if that was
    withdrawn, held or banned since. Only what was disqualified before the score was made does not
    count.
    """
    if any(past.submission == leader.submission for past in announced):
        return None
    best_us = [
        past.score_us
        for past in announced
        if past.disqualified_seq is None or past.disqualified_seq > leader.seq
    ]
    best_us += [] if best_of_others_us is None else [best_of_others_us]
    if best_us and leader.score_us >= min(best_us):
        return None
    standing_us = [past.score_us for past in announced if past.is_standing]
    return RecordSet(
        problem_number=problem_number,
        submission=leader.submission,
        run=leader.run,
        account=leader.account,
        score_us=leader.score_us,
        previous_us=min(standing_us, default=None),
    )


def find_podium_change(
    problem_number: int, before: list[str], after: list[str], movers: Collection[str] = ()
) -> PodiumChanged | None:
    """The podium change to announce, None if the podium is the announced one.

    `is_by_run` is true if one of the `movers`, whose own run may have caused it, is placed better.

    >>> find_podium_change(1, ["a", "b", "c"], ["a", "b", "c"]) is None
    True
    >>> find_podium_change(1, ["a", "b", "c"], ["b", "c"], movers=["d"]).is_by_run
    False
    """
    if after == before:
        return None
    better_placed = [
        account
        for place, account in enumerate(after)
        if account not in before or place < before.index(account)
    ]
    is_by_run = any(account in movers for account in better_placed)
    return PodiumChanged(
        problem_number=problem_number, before=before, after=after, is_by_run=is_by_run
    )
