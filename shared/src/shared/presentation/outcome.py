"""The result of a submission, in lines: its verdict, what failed, its rank, and its rates."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from shared.api.cases import Case, Roofline
from shared.api.problems import ShortcutPolicy
from shared.api.submissions import File, FullSubmission, Ranking
from shared.presentation.units import (
    NO_VALUE,
    RANGE_LEGEND,
    TIED_LEGEND,
    escape_control_characters,
    interval_text,
    one_line,
    pooled_text,
    rank_text,
    seconds_text,
    shorten_floats,
    time_text,
)
from shared.run_values import Composition, Mismatch

_RATES = (("G", 1.0), ("T", 1e3), ("P", 1e6))


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run on this machine: its result and its measurements, as a submission has them."""

    verdict: str | None = None
    stage: str | None = None
    reason: str | None = None
    took_s: float | None = None
    level: str | None = None
    tier: str | None = None
    missing: list[str] = []
    cases: list[Case] = []
    files: list[File] = []
    environment: dict[str, str] = {}
    log_head: str = ""
    log_tail: str = ""


AnyRun = Run | FullSubmission


def roofline_text(roofline: Roofline | None) -> str:
    """Format the rates and the share of a time.

    >>> roofline_text(Roofline(bandwidth_gb_s=4100, gflops=341.7, share=0.854, bound="memory"))
    '4.1 TB/s, 342 GFLOP/s, 85 % of memory'
    >>> roofline_text(Roofline(gflops=0.25, dtype="int8")), roofline_text(None)
    ('0.25 GOP/s', '-')
    """
    if roofline is None:
        return NO_VALUE
    parts = []
    if roofline.bandwidth_gb_s is not None:
        parts.append(_rate_text(roofline.bandwidth_gb_s, "B/s"))
    if roofline.gflops is not None:
        parts.append(_rate_text(roofline.gflops, "OP/s" if roofline.dtype == "int8" else "FLOP/s"))
    if roofline.share is not None:
        parts.append(f"{share_text(roofline.share)} of {roofline.bound}")
    return ", ".join(parts) or NO_VALUE


def share_text(share: float | None) -> str:
    """Format a share of the roofline in per cent.

    >>> share_text(0.854), share_text(0.0042), share_text(None)
    ('85 %', '0.42 %', '-')
    """
    if share is None:
        return NO_VALUE
    return f"{share:.0%}".replace("%", " %") if share >= 0.1 else f"{100 * share:.2g} %"


def speedups_text(ratios: Mapping[str, float]) -> str:
    """Format how many times as fast as each baseline a time is.

    >>> speedups_text({"eager": 2.3149, "compile": 0.95}), speedups_text({})
    ('2.31x eager, 0.95x compile', '-')
    """
    return ", ".join(f"{ratio:.3g}x {name}" for name, ratio in ratios.items()) or NO_VALUE


def speedup_text(speedup: float | None, interval: Sequence[float] | None = None) -> str:
    """Say how many times as fast as the yardstick a time is, with the 95 % interval.

    >>> speedup_text(1.8412, (1.802, 1.88))
    '1.84 times as fast as the yardstick (1.80 to 1.88)'
    >>> speedup_text(0.52), speedup_text(None)
    ('0.520 times as fast as the yardstick', '')
    """
    if speedup is None:
        return ""
    text = f"{speedup:#.3g} times as fast as the yardstick"
    return f"{text} ({interval[0]:#.3g} to {interval[1]:#.3g})" if interval else text


def speedup_cell(speedup: float | None, interval: Sequence[float] | None = None) -> str | None:
    """Format a speed-up over the yardstick for a table.

    >>> speedup_cell(1.8412, (1.802, 1.88)), speedup_cell(None)
    ('1.84x (1.80 to 1.88)', None)
    """
    if speedup is None:
        return None
    text = f"{speedup:#.3g}x"
    return f"{text} ({interval[0]:#.3g} to {interval[1]:#.3g})" if interval else text


# How a problem's own program measures, which has no yardstick.
MEASURED_ALONE = "measured alone"


# The parts of a composition, in the order shown when their shares are equal.
_PARTS = {
    "own_kernels": "own kernels",
    "own_code": "own code",
    "torch": "torch operators",
    "overhead": "overhead of Python and torch",
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "cutlass": "CUTLASS",
    "copies": "copies",
}


def composition_text(composition: Composition | None) -> str:
    """Describe what produced an answer, the largest part first.

    >>> composition_text(Composition(shares={"cublas": 0.13, "own_kernels": 0.87}))
    '87 % own kernels, 13 % cuBLAS'
    >>> composition_text(None)
    ''
    """
    if composition is None:
        return ""
    known = [(name, composition.shares.get(name, 0.0)) for name in _PARTS]
    parts = sorted((part for part in known if part[1] > 0), key=lambda part: -part[1])
    return ", ".join(f"{share_text(share)} {_PARTS[name]}" for name, share in parts)


def shortcuts_text(policy: ShortcutPolicy) -> str:
    """Describe what a problem does not allow; "" if it allows everything.

    >>> shortcuts_text(ShortcutPolicy(forbid=["torch.matmul", "cublas"], own_kernel="required"))
    'torch.matmul, cublas; a submission must define its own kernel'
    """
    own_kernel = "a submission must define its own kernel" if policy.own_kernel else ""
    forbidden = ", ".join(one_line(name, 100) for name in policy.forbid)
    return "; ".join(filter(None, (forbidden, own_kernel)))


def _rate_text(giga: float, unit: str) -> str:
    """Format a rate in a suitable unit, to three significant digits."""
    prefix, size = next((rate for rate in reversed(_RATES) if giga >= rate[1]), _RATES[0])
    return f"{giga / size:.3g} {prefix}{unit}"


LOG_LINES_MAX = 20
MESSAGE_LINES_MAX = 12
MISMATCHES_MAX = 5
LINE_LENGTH_MAX = 300
RANKED = "ranked"
# A compiler's log begins with this and its command line.
_COMMAND_MARK = "$ "
COMPILE_ERROR, WRONG_ANSWER = "compile_error", "wrong_answer"
_COMPILER_ERROR = re.compile(r"error:|undefined reference", re.IGNORECASE)


def outcome_lines(submission: FullSubmission) -> list[str]:
    """Summarize a finished submission: verdict, failure, score, and its rank or why it has none."""
    verdict = submission.verdict or submission.outcome or submission.state
    duration = f" in {seconds_text(submission.took_s)}" if submission.took_s is not None else ""
    head = f"submission {submission.number}: {verdict} ({submission.mode} on {submission.gpu})"
    failure = list(failure_lines(submission)) if submission.outcome != "passed" else []
    return [head + duration, *failure, *standing_lines(submission)]


def standing_lines(submission: FullSubmission) -> Iterator[str]:
    """Yield the score, the rank or why there is none, the distance to others, and the appeal."""
    ranking, moderation = submission.ranking, submission.moderation
    if ranking is not None:
        if ranking.score_us is not None:
            yield _score_line(submission, ranking)
        if submission.mode == RANKED or ranking.rank is not None:
            yield _rank_line(submission, ranking)
        yield from gap_lines(ranking)
    if moderation is not None and moderation.appeal is not None:
        reason = _shorten(escape_control_characters(moderation.appeal_reason or ""))
        yield f"appeal {moderation.appeal}" + (f": {reason}" if reason else "")


def gap_lines(ranking: Ranking) -> Iterator[str]:
    """Yield the distance of a score from the owner's best before, the next place and the first."""
    previous_us = ranking.own_best_us
    if ranking.score_us is not None and previous_us:
        difference_us = ranking.score_us - previous_us
        direction = "slower" if difference_us > 0 else "faster"
        share = f"{100 * abs(difference_us) / previous_us:.2g} %"
        yield f"{time_text(abs(difference_us))} ({share}) {direction} than your best before"
    distances = ((ranking.delta_to_next, "the next place"), (ranking.delta_to_best, "the first"))
    texts = [
        f"{time_text(1e6 * delta_s)} behind {target}" for delta_s, target in distances if delta_s
    ]
    if texts:
        yield ", ".join(texts)


def _rank_line(submission: FullSubmission, ranking: Ranking) -> str:
    version = ranking.problem_version
    is_rejudged = version not in (0, submission.problem_version)
    version_text = f", version {version}" if is_rejudged else ""
    leaderboard = f"{submission.problem} on {submission.gpu}{version_text}"
    if ranking.rank is not None:
        rank = rank_text(ranking.rank, ranking.best_rank, is_tied=ranking.is_tied)
        tie_text = f": {TIED_LEGEND}" if ranking.is_tied else ""
        if ranking.best_rank is not None:
            tie_text = f": {RANGE_LEGEND}"
        return f"rank {rank} of {leaderboard}{tie_text}"
    if ranking.status == "held":
        reason = _shorten(escape_control_characters(ranking.reason or ""))
        return f"held for review ({ranking.code}): {reason}"
    if ranking.code == "superseded":
        return f"not ranked: another submission of yours is better, {leaderboard}"
    if ranking.reason and submission.outcome == "passed":
        return f"not ranked ({ranking.code}): {_shorten(escape_control_characters(ranking.reason))}"
    return f"not ranked ({ranking.code})"


def _score_line(submission: FullSubmission, ranking: Ranking) -> str:
    facts = {"tier": submission.tier, "isolation": submission.level, "grade": submission.grade}
    qualities = [f"{name} {value}" for name, value in facts.items() if value]
    qualities += ["provisional"] if submission.is_provisional else []
    qualities += [MEASURED_ALONE] if submission.speedup is None else []
    quality_text = f": {', '.join(qualities)}" if qualities else ""
    score = f"score {time_text(ranking.score_us)} ({interval_text(ranking.interval_us)})"
    if speedup := speedup_text(submission.speedup, submission.speedup_interval):
        score += f", {speedup}"
    if len(ranking.pooled_over) < 2:
        return f"{score}{quality_text}"
    own_run_text = f"; this run alone {time_text(ranking.run_us)}"
    return f"{score}{pooled_text(ranking.pooled_over)}{own_run_text}{quality_text}"


def failure_lines(run: AnyRun) -> Iterator[str]:
    """Yield what failed in a run: its stage and reason, the first failing case, the log's end."""
    yield from reason_lines(run)
    case = first_failing(run.cases)
    if case is not None:
        if not (case.message and case.message in (run.reason or "")):
            yield from _case_lines(case)
        yield from mismatch_lines(case)
    yield from log_lines(run)


def reason_lines(run: AnyRun) -> list[str]:
    """Return the stage in which a run ended, and the reason."""
    if not (run.stage or run.reason):
        return []
    stage_text = f"in stage {run.stage}: " if run.stage else ""
    reason = run.reason or ""
    if run.verdict == COMPILE_ERROR:
        reason = _move_error_up(reason.partition(f"failed ({COMPILE_ERROR}): ")[2] or reason)
    first, *continuation = _message_lines(reason, run.verdict) or ["no reason given"]
    if run.verdict == COMPILE_ERROR and run.log_head.startswith(_COMMAND_MARK):
        continuation = []  # the compiler's output is shown as the log
    return [stage_text + first, *(f"  {line}" for line in continuation)]


def _move_error_up(output: str) -> str:
    r"""Move the first error of a compiler's output to its top.

    >>> _move_error_up("k.cpp: In function f:\nk.cpp:3: error: oops").splitlines()
    ['k.cpp:3: error: oops', 'k.cpp: In function f:']
    """
    lines = output.splitlines()
    error = next((line for line in lines if _COMPILER_ERROR.search(line)), None)
    if error is None:
        return output
    lines.remove(error)
    return "\n".join([error.strip(), *lines])


def _message_lines(text: str, verdict: str | None) -> list[str]:
    """Return the first lines of a message; the numbers of a wrong answer are shortened."""
    lines = escape_control_characters(text).splitlines()
    if verdict == WRONG_ANSWER:
        lines = [shorten_floats(line) for line in lines]
    first_lines = [_shorten(line) for line in lines[:MESSAGE_LINES_MAX]]
    more = len(lines) - MESSAGE_LINES_MAX
    return [*first_lines, f"… {more} more lines"] if more > 0 else first_lines


def _shorten(line: str) -> str:
    return line if len(line) <= LINE_LENGTH_MAX else line[: LINE_LENGTH_MAX - 1] + "…"


def first_failing(cases: Iterable[Case]) -> Case | None:
    """Return the first case that did not pass, public cases first."""
    failing = [case for case in cases if case.verdict not in ("passed", "skipped")]
    return min(failing, key=lambda case: case.is_hidden, default=None)


def _case_lines(case: Case) -> Iterator[str]:
    name = "a hidden case" if case.is_hidden else f"case {escape_control_characters(case.name)}"
    yield f"{name}: {case.verdict}"
    for line in _message_lines(case.message, case.verdict):
        yield f"  {line}"


def mismatch_lines(case: Case) -> Iterator[str]:
    """Yield the first wrong elements and their number, as far as the message does not have them."""
    mismatches = [item for item in case.mismatches if not _is_in_message(item, case.message)]
    if case.wrong and len(mismatches) == len(case.mismatches):
        yield f"  {case.wrong:,} wrong, such as" if mismatches else f"  {case.wrong:,} wrong"
    for mismatch in mismatches[:MISMATCHES_MAX]:
        index, got = one_line(mismatch.index, 60), one_line(mismatch.got, 60)
        values = shorten_floats(f"got {got}, expected {one_line(mismatch.expected, 60)}")
        yield f"  at {index}: {values}"


def _is_in_message(mismatch: Mismatch, message: str) -> bool:
    """Return whether a problem's own message names the place and both values of a mismatch."""
    values = (shorten_floats(mismatch.got), shorten_floats(mismatch.expected))
    short_lines = map(shorten_floats, message.splitlines())
    parts = (mismatch.index.strip("[]"), *values)
    return any(all(part in line for part in parts) for line in short_lines)


def log_lines(run: AnyRun) -> Iterator[str]:
    """Yield the end of the output under a heading; nothing without output."""
    heading, *lines = printed_lines(run, LOG_LINES_MAX) or [""]
    if lines:
        yield heading
        yield from (f"  {_shorten(line)}" for line in lines)


def printed_lines(run: AnyRun, lines_max: int) -> list[str]:
    r"""Return a heading and the last lines of the output; of a build the first lines, too.

    >>> printed_lines(Run(stage="check", log_head="1\n2\n3\n4\n5\n"), 4)
    ['it printed, at the end:', '2', '3', '4', '5']
    >>> printed_lines(Run(stage="build", log_head="$ g++ k.cpp\n2\n3\n4\nexit code 1\n"), 4)
    ['it printed:', '$ g++ k.cpp', '2', '… 1 lines', '4', 'exit code 1']
    """
    is_build = run.stage == "build"
    texts = (run.log_head, run.log_tail) if is_build else (run.log_tail or run.log_head,)
    lines = [line for text in texts for line in escape_control_characters(text).splitlines()]
    if len(lines) <= lines_max:
        return ["it printed:", *lines] if lines else []
    if not is_build:
        return ["it printed, at the end:", *lines[-lines_max:]]
    # A compiler's command comes first, then its first error; the summary comes last.
    half = lines_max // 2
    left_out = len(lines) - 2 * half
    return ["it printed:", *lines[:half], f"… {left_out} lines", *lines[-half:]]


def note_lines(submission: FullSubmission) -> list[str]:
    """Return the owner's tag and note in one line, if there are any."""
    texts = [text for text in (submission.tag, submission.note) if text]
    return [f"noted: {' · '.join(texts)}"] if texts else []


def isolation_text(run: AnyRun) -> str:
    """Describe how a run was isolated and timed.

    >>> isolation_text(Run(level="medium", tier="C2", missing=["freezer"]))
    'isolation medium, timing tier C2; missing: freezer'
    """
    missing = f"; missing: {', '.join(map(one_line, run.missing))}" if run.missing else ""
    return f"isolation {run.level}, timing tier {run.tier}{missing}"
