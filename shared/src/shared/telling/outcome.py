"""How a submission ended, in lines: its verdict, what went wrong, and where it stands."""

from collections.abc import Iterable, Iterator

from shared.telling.answers import Case, Ranking, Run, Submission
from shared.telling.ranks import TIED, pooled_text, rank_text
from shared.telling.units import harmless, interval_text, one_line, seconds_text, time_text

LOG_LINES_MAX = 20
MESSAGE_LINES_MAX = 12
MISMATCHES_MAX = 5
LINE_LENGTH_MAX = 300
RANKED = "ranked"
# How the log of what was compiled begins: its command line comes next.
_COMMAND = "$ "


def ending(submission: Submission) -> list[str]:
    """A finished submission in lines: verdict, what went wrong, score, rank or why none."""
    verdict = submission.verdict or submission.outcome or submission.state
    took = f" in {seconds_text(submission.took_s)}" if submission.took_s is not None else ""
    head = (
        f"submission {submission.number}: {verdict} ({submission.mode} on {submission.gpu}){took}"
    )
    trouble = list(troubles(submission)) if submission.outcome != "passed" else []
    return [head, *trouble, *standing(submission)]


def _appealed(submission: Submission) -> Iterator[str]:
    """What came of the appeal, if somebody appealed."""
    said = submission.moderation
    if said is not None and said.appeal is not None:
        why = f": {_cut(harmless(said.appeal_reason))}" if said.appeal_reason else ""
        yield f"appeal {said.appeal}{why}"


def standing(submission: Submission) -> Iterator[str]:
    """Its score, its rank or why it has none, how far it is from others, and its appeal."""
    if submission.ranking is not None:
        yield from _ranked(submission, submission.ranking)
    yield from _appealed(submission)


def _ranked(submission: Submission, ranking: Ranking) -> Iterator[str]:
    if ranking.score_us is not None:
        yield _score(submission, ranking)
    if submission.mode == RANKED or ranking.rank is not None:
        yield _place(submission, ranking)
    yield from gaps(ranking)


def gaps(ranking: Ranking) -> Iterator[str]:
    """How far a score is from one's own best before, from the next place and from the first.

    >>> list(gaps(Ranking(status="ranked", score_us=9.0, own_best_us=10.0, delta_to_next=2e-6)))
    ['1 µs (10 %) faster than your best before', '2 µs behind the next place']
    """
    before_us = ranking.own_best_us
    if ranking.score_us is not None and before_us:
        off_us = ranking.score_us - before_us
        way = "slower" if off_us > 0 else "faster"
        share = f"{100 * abs(off_us) / before_us:.2g} %"
        yield f"{time_text(abs(off_us))} ({share}) {way} than your best before"
    behind = ((ranking.delta_to_next, "the next place"), (ranking.delta_to_best, "the first"))
    said = [f"{time_text(1e6 * delta_s)} behind {whom}" for delta_s, whom in behind if delta_s]
    if said:
        yield ", ".join(said)


def _place(submission: Submission, ranking: Ranking) -> str:
    """Where it stands on its leaderboard, or why it does not."""
    version = ranking.problem_version
    judged_again = version not in (0, submission.problem_number)
    again = f", version {version}" if judged_again else ""
    where = f"{submission.problem} on {submission.gpu}{again}"
    if ranking.rank is not None:
        rank = rank_text(ranking.rank, is_tied=ranking.is_tied)
        tied = f": {TIED}" if ranking.is_tied else ""
        return f"rank {rank} of {where}{tied}"
    if ranking.status == "held":
        return f"held for review ({ranking.code}): {_cut(harmless(ranking.reason or ''))}"
    if ranking.code == "superseded":
        return f"not ranked: another submission of yours is better, {where}"
    if ranking.reason and submission.outcome == "passed":
        return f"not ranked ({ranking.code}): {_cut(harmless(ranking.reason))}"
    return f"not ranked ({ranking.code})"


def _score(submission: Submission, ranking: Ranking) -> str:
    """The score with what it is worth."""
    said = [f"tier {submission.tier}"] if submission.tier else []
    said += [f"isolation {submission.level}"] if submission.level else []
    said += [f"grade {submission.grade}"] if submission.grade else []
    said += ["provisional"] if submission.is_provisional else []
    worth = f": {', '.join(said)}" if said else ""
    score = f"score {time_text(ranking.score_us)} ({interval_text(ranking.interval_us)})"
    if len(ranking.pooled_over) < 2:
        return f"{score}{worth}"
    own = f"; this run alone {time_text(ranking.run_us)}"
    return f"{score}{pooled_text(ranking.pooled_over)}{own}{worth}"


def troubles(run: Run) -> Iterator[str]:
    """What went wrong in a run: its stage and reason, the first failing case, the log's end."""
    reason = run.reason or ""
    yield from reason_lines(run)
    case = first_failing(run.cases)
    if case is not None:
        if not (case.message and case.message in reason):
            yield from _case_lines(case)
        yield from mismatch_lines(case)
    yield from log_lines(run)


def reason_lines(run: Run) -> list[str]:
    """In which stage a run ended, and why."""
    if not (run.stage or run.reason):
        return []
    where = f"in stage {run.stage}: " if run.stage else ""
    first, *rest = _lines(run.reason or "", MESSAGE_LINES_MAX) or ["no reason given"]
    if run.verdict == "compile_error" and run.log_head.startswith(_COMMAND):
        rest = []  # all that the compiler said is told as what was printed
    return [where + first, *(f"  {line}" for line in rest)]


def _lines(text: str, lines_max: int) -> list[str]:
    """The first lines of foreign text, harmless and cut to a length; how many more there are."""
    lines = harmless(text).splitlines()
    shown = [_cut(line) for line in lines[:lines_max]]
    more = len(lines) - lines_max
    return [*shown, f"… {more} more lines"] if more > 0 else shown


def _cut(line: str) -> str:
    return line if len(line) <= LINE_LENGTH_MAX else line[: LINE_LENGTH_MAX - 1] + "…"


def first_failing(cases: Iterable[Case]) -> Case | None:
    """The first case that did not pass, a shown one before a hidden one."""
    failing = [case for case in cases if case.verdict not in ("passed", "skipped")]
    return min(failing, key=lambda case: case.is_hidden, default=None)


def _case_lines(case: Case) -> Iterator[str]:
    name = "a hidden case" if case.is_hidden else f"case {harmless(case.name)}"
    yield f"{name}: {case.verdict}"
    yield from (f"  {line}" for line in _lines(case.message, MESSAGE_LINES_MAX))


def mismatch_lines(case: Case) -> Iterator[str]:
    """The first wrong elements, and how many there are."""
    if case.wrong:
        yield f"  {case.wrong:,} wrong, such as" if case.mismatches else f"  {case.wrong:,} wrong"
    for one in case.mismatches[:MISMATCHES_MAX]:
        index, got, expected = (one_line(text, 60) for text in (one.index, one.got, one.expected))
        yield f"  at {index}: got {got}, expected {expected}"


def log_lines(run: Run) -> Iterator[str]:
    """The end of what was printed, under a heading; nothing if it was silent."""
    heading, *lines = printed(run, LOG_LINES_MAX) or [""]
    if lines:
        yield heading
        yield from (f"  {_cut(line)}" for line in lines)


def printed(run: Run, lines_max: int) -> list[str]:
    r"""A heading and the last lines that were printed; of a build the first ones, too.

    >>> printed(Run(stage="check", log_head="1\n2\n3\n4\n5\n"), 4)
    ['it printed, at the end:', '2', '3', '4', '5']
    >>> printed(Run(stage="build", log_head="$ g++ k.cpp\n2\n3\n4\nexit code 1\n"), 4)
    ['it printed:', '$ g++ k.cpp', '2', '… 1 lines', '4', 'exit code 1']
    """
    is_build = run.stage == "build"
    kept = (run.log_head, run.log_tail) if is_build else (run.log_tail or run.log_head,)
    lines = [line for text in kept for line in harmless(text).splitlines()]
    if len(lines) <= lines_max:
        return ["it printed:", *lines] if lines else []
    if not is_build:
        return ["it printed, at the end:", *lines[-lines_max:]]
    # A compiler's command is the first line, its first error comes next, and its end is last.
    half = lines_max // 2
    left_out = len(lines) - 2 * half
    return ["it printed:", *lines[:half], f"… {left_out} lines", *lines[-half:]]


def noted(found: Submission) -> list[str]:
    """What its owner said of it, in a line if anything."""
    said = [one for one in (found.tag, found.note) if one]
    return [f"noted: {' · '.join(said)}"] if said else []


def isolation(run: Run) -> str:
    """How a run was confined and timed.

    >>> isolation(Run(level="medium", tier="C2", missing=["freezer"]))
    'isolation medium, timing tier C2; missing: freezer'
    """
    missing = f"; missing: {', '.join(map(one_line, run.missing))}" if run.missing else ""
    return f"isolation {run.level}, timing tier {run.tier}{missing}"
