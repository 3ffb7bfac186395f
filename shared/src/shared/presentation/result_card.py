"""The result of a submission as one card, which every surface shows first and only renders."""

from collections.abc import Sequence
from math import exp, log

import msgspec

from shared.api.cases import Case
from shared.api.submissions import FullSubmission, Ranking
from shared.presentation.failure import Failure, describe_failure, failure_lines
from shared.presentation.outcome import MEASURED_ALONE, share_text, speedup_cell
from shared.presentation.report_parts import TIME, verdict_text
from shared.presentation.units import (
    RANGE_LEGEND,
    TIED_LEGEND,
    count_text,
    interval_text,
    one_line,
    pooled_text,
    rank_text,
    seconds_text,
    spread_text,
    time_text,
)

RANKED = "ranked"
REASON_LENGTH_MAX = 300
BAR_CHARS = 20
YARDSTICK, ROOFLINE = "yardstick", "roofline"
# The ranker's reasons begin with it, too.
HELD = "held for review"


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A figure as a bar: `share` is its length from 0 to 1, `even` where a ratio of 1 is."""

    name: str
    text: str
    share: float
    even: float | None = None


class ResultCard(msgspec.Struct, frozen=True, kw_only=True):
    """How a submission ended.

    `heading` is its mode and GPU type. A pass has the `score` with its interval, `bars` of the
    speed-up over each baseline and of the share of the roofline, and what was `measured`. `rank` is
    the rank, from where to where it moved, or why there is none; `distance` are the distances to
    others. `reason` is why there is no rank, unless `failure` says it.
    """

    number: int
    verdict: str
    is_good: bool
    heading: str
    took: str = ""
    failure: Failure | None = None
    score: str = ""
    bars: list[Bar] = []
    rank: str = ""
    reason: str = ""
    distance: str = ""
    measured: str = ""
    appeal: str = ""


def make_result_card(submission: FullSubmission, source: str = "") -> ResultCard:
    """Return the card of a finished submission; with the source, a failure has its column."""
    ranking = submission.ranking
    has_passed = submission.outcome == "passed"
    verdict = submission.verdict if submission.outcome != "infra_failed" else None
    is_ranked_mode = submission.mode == RANKED
    reason = _reason_text(ranking, has_passed=has_passed) if ranking else ""
    return ResultCard(
        number=submission.number,
        verdict=verdict_text(verdict or submission.outcome or submission.state),
        is_good=has_passed and (not is_ranked_mode or submission.is_eligible),
        heading=f"{submission.mode} on {submission.gpu}",
        took=seconds_text(submission.took_s) if submission.took_s is not None else "",
        failure=None if has_passed else describe_failure(submission, source),
        score=_score_text(submission),
        bars=make_bars(submission) if has_passed else [],
        rank=_rank_text(submission, ranking, reason) if ranking else "",
        reason=reason,
        distance=_distance_text(ranking) if ranking else "",
        measured=_measured_text(submission) if has_passed else "",
        appeal=_appeal_text(submission),
    )


def _score_text(submission: FullSubmission) -> str:
    ranking = submission.ranking
    if ranking is None or ranking.score_us is None:
        if submission.score_us is None:
            return ""
        return spread_text(submission.score_us, submission.interval_us)
    score = spread_text(ranking.score_us, ranking.interval_us)
    interval = f" ({interval_text(ranking.interval_us)})" if ranking.interval_us else ""
    if len(ranking.pooled_over) < 2:
        return f"{score}{interval}"
    pooled = pooled_text(ranking.pooled_over)
    return f"{score}{interval}{pooled}; this run alone {time_text(ranking.run_us)}"


def make_bars(submission: FullSubmission) -> list[Bar]:
    """Return the speed-up over the yardstick and each baseline, and the share of the roofline.

    Those of several cases are geometric means.
    """
    timed = [case for case in submission.cases if case.time_us is not None and not case.is_hidden]
    ratios: dict[str, tuple[float, str]] = {}
    if submission.speedup is not None:
        text = speedup_cell(submission.speedup, submission.speedup_interval) or ""
        ratios[YARDSTICK] = submission.speedup, text
    names = dict.fromkeys(name for case in timed for name in case.vs_baseline)
    for name in names:
        ratio = _mean([case.vs_baseline[name] for case in timed if name in case.vs_baseline])
        ratios[one_line(name, 40)] = ratio, f"{ratio:#.3g}x"
    longest = max([1.0, *(ratio for ratio, _ in ratios.values())])
    bars = [
        Bar(name=name, text=text, share=ratio / longest, even=1 / longest)
        for name, (ratio, text) in ratios.items()
    ]
    shares = [case.roofline.share for case in timed if case.roofline and case.roofline.share]
    if shares:
        share = _mean(shares)
        bounds = {case.roofline.bound for case in timed if case.roofline}
        bound = f" of {bounds.pop()}" if len(bounds) == 1 and None not in bounds else ""
        text = f"{share_text(share)}{bound}"
        bars.append(Bar(name=ROOFLINE, text=text, share=min(1.0, share)))
    return bars


def _mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean of positive figures.

    >>> round(_mean([1.0, 4.0]), 6)
    2.0
    """
    return exp(sum(map(log, ratios)) / len(ratios)) if min(ratios) > 0 else 0.0


def _reason_text(ranking: Ranking, *, has_passed: bool) -> str:
    """Return why there is no rank, except an error of the run, which the failure has."""
    is_other = has_passed or ranking.status == "removed"
    reason = (ranking.reason or "").removeprefix(f"{HELD}: ")
    return one_line(reason, REASON_LENGTH_MAX) if is_other and ranking.rank is None else ""


def _rank_text(submission: FullSubmission, ranking: Ranking, reason: str) -> str:
    if submission.mode != RANKED and ranking.rank is None:
        return ""
    version = ranking.problem_version
    is_rejudged = version not in (0, submission.problem_version)
    version_text = f", version {version}" if is_rejudged else ""
    leaderboard = f"{submission.problem} on {submission.gpu}{version_text}"
    if ranking.rank is not None:
        rank = rank_text(ranking.rank, ranking.best_rank, is_tied=ranking.is_tied)
        before = ranking.rank_before
        moved = f", from {before}" if before is not None and before != ranking.rank else ""
        tie_text = f": {TIED_LEGEND}" if ranking.is_tied else ""
        if ranking.best_rank is not None:
            tie_text = f": {RANGE_LEGEND}"
        return f"rank {rank} of {leaderboard}{moved}{tie_text}"
    if ranking.code == "superseded":
        return f"not ranked: another submission of yours is better, {leaderboard}"
    status = HELD if ranking.status == "held" else "not ranked"
    return f"{status} ({ranking.code})" + (f": {reason}" if reason else "")


def _distance_text(ranking: Ranking) -> str:
    """Return the distance of a score from the owner's best before, the next place and the first."""
    texts = []
    previous_us = ranking.own_best_us
    if ranking.score_us is not None and previous_us:
        difference_us = ranking.score_us - previous_us
        direction = "slower" if difference_us > 0 else "faster"
        share = f"{100 * abs(difference_us) / previous_us:.2g} %"
        texts.append(f"{time_text(abs(difference_us))} ({share}) {direction} than your best before")
    distances = ((ranking.delta_to_next, "the next place"), (ranking.delta_to_best, "the first"))
    texts += [
        f"{time_text(1e6 * delta_s)} behind {target}" for delta_s, target in distances if delta_s
    ]
    return ", ".join(texts)


def _measured_text(submission: FullSubmission) -> str:
    """Say in one line what the score was measured from, and what it is worth."""
    timed = [case for case in submission.cases if case.stage == TIME and case.time_us is not None]
    parts = []
    if timed:
        parts.append(_calls_text(timed))
    facts = {"tier": submission.tier, "isolation": submission.level, "grade": submission.grade}
    has_score = submission.score_us is not None
    parts += [f"{name} {value}" for name, value in facts.items() if value and has_score]
    parts += ["provisional"] if submission.is_provisional else []
    parts += [MEASURED_ALONE] if has_score and submission.speedup is None else []
    return ", ".join(parts)


def _calls_text(timed: Sequence[Case]) -> str:
    processes = max(len(case.process_us) for case in timed)
    calls = sum(case.samples for case in timed)
    text = f"{count_text(calls, 'call')} of " if calls else ""
    text += count_text(len(timed), "case")
    return f"{text} in {count_text(processes, 'process', 'processes')}" if processes else text


def _appeal_text(submission: FullSubmission) -> str:
    moderation = submission.moderation
    if moderation is None or moderation.appeal is None:
        return ""
    reason = one_line(moderation.appeal_reason or "", REASON_LENGTH_MAX)
    return f"appeal {moderation.appeal}" + (f": {reason}" if reason else "")


def card_lines(card: ResultCard) -> list[str]:
    """Return a card as lines of text: the heading, then the failure, then the score and rank."""
    took = f" in {card.took}" if card.took else ""
    heading = f"submission {card.number}: {card.verdict} ({card.heading}){took}"
    return [
        *(heading, *failure_lines(card.failure)),
        *(*standing_lines(card), *bar_lines(card.bars)),
    ]


def standing_lines(card: ResultCard) -> list[str]:
    """Return the score, the rank, the distance and what was measured; none without them."""
    score = f"score {card.score}" if card.score else ""
    measured = f"measured: {card.measured}" if card.measured else ""
    return [line for line in (score, card.rank, card.distance, measured, card.appeal) if line]


def bar_lines(bars: Sequence[Bar]) -> list[str]:
    """Return bars as lines of text.

    >>> bar_lines([Bar(name="eager", text="2.00x", share=1.0, even=0.5)])
    ['  eager  ━━━━━━━━━━━━━━━━━━━━  2.00x']
    """
    width = max((len(bar.name) for bar in bars), default=0)
    return [
        f"  {bar.name:<{width}}  {'━' * max(1, round(BAR_CHARS * bar.share)):<{BAR_CHARS}}  "
        f"{bar.text}"
        for bar in bars
    ]
