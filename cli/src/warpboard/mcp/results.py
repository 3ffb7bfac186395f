"""Tools that read what came of a submission: verdict, cases, what it printed, its profile."""

from collections.abc import Iterable

from shared.errors import Refused
from warpboard.domain.answers import Case, Run, Submission, read
from warpboard.domain.comparison import Comparison
from warpboard.domain.outcome import ending
from warpboard.domain.progress import news
from warpboard.mcp import asks, bounds, tells
from warpboard.mcp.hands import Hands
from warpboard.service.ports import Api

CASES_MAX = 24
TIMED_MAX = 64
MISMATCHES_MAX = 5
DIFF_CHARS_MAX = 20_000
REPORT_BYTES_MAX = 4 * 1024 * 1024
GOOD = ("passed", "skipped")
LOG = "log.txt"
READABLE = (".txt", ".csv", ".md", ".json", ".log")


async def read_result(hands: Hands, asked: asks.ReadResult) -> tells.Result:
    """How a submission ended, or where it is. Errors: Refused; Failed."""
    found = await _submission(hands.api, asked.number)
    bad, cut = failing(found)
    times, more = timed(found)
    ranking = found.ranking
    return tells.Result(
        number=found.number,
        problem=found.problem,
        gpu=found.gpu,
        mode=found.mode,
        state=found.state,
        is_over=found.is_over,
        summary=ending(found) if found.is_over else [news(found).whole],
        next=_next(found),
        outcome=found.outcome,
        verdict=found.verdict,
        stage=found.stage,
        reason=bounds.brief(found.reason or "") or None,
        score_us=ranking.score_us if ranking and ranking.score_us else found.score_us,
        interval_us=ranking.interval_us if ranking else None,
        ranking=ranking if found.is_over else None,
        cases_count=len(found.cases),
        failing=bad,
        timed=times,
        grade=found.grade,
        is_provisional=found.is_provisional,
        tier=found.tier,
        level=found.level,
        files=[one.name for one in found.files],
        cut=[*cut, *more],
    )


async def _submission(api: Api, number: int) -> Submission:
    return read(await api.get("submissions", number), Submission)


def failing(run: Run) -> tuple[list[tells.Failing], list[str]]:
    """The cases that did not pass, shown ones first, and how many were left out."""
    bad = sorted((one for one in run.cases if one.verdict not in GOOD), key=lambda c: c.is_hidden)
    kept, cut = bounds.first(bad, CASES_MAX, "failing cases")
    return [_failing(one) for one in kept], cut


def _failing(case: Case) -> tells.Failing:
    return tells.Failing(
        name="a hidden case" if case.is_hidden else case.name,
        stage=case.stage,
        verdict=case.verdict,
        message=bounds.brief(case.message),
        wrong=case.wrong,
        mismatches=case.mismatches[:MISMATCHES_MAX],
    )


def timed(run: Run) -> tuple[list[tells.Timed], list[str]]:
    """The cases with a time, and how many were left out."""
    kept, cut = bounds.first([one for one in run.cases if one.time_us], TIMED_MAX, "timed cases")
    return [
        tells.Timed(
            name=one.name,
            time_us=one.time_us or 0.0,
            interval_us=one.interval_us,
            samples=one.samples,
            grade=one.grade,
            roofline=one.roofline,
            vs_baseline=one.vs_baseline,
        )
        for one in kept
    ], cut


def _next(found: Submission) -> str:
    """What suits best now."""
    if not found.is_over:
        return f"call follow with number {found.number} until is_over"
    if found.outcome == "infra_failed":
        return "the platform failed, not the kernel: submit the same again"
    if found.outcome != "passed":
        return "mend what failing and reason say; read_log has what the kernel printed"
    return {
        "test": "it is right; submit with mode benchmark to see how fast it is",
        "benchmark": "compare it with your best; submit with mode ranked if it is better",
        "profile": "call read_profile",
    }.get(found.mode, "call leaderboard to see where it stands")


async def read_log(hands: Hands, asked: asks.ReadLog) -> tells.Text:
    """What a submission printed, from its beginning or its end. Errors: Refused; Failed."""
    found = await _submission(hands.api, asked.number)
    names = [one.name for one in found.files]
    if LOG in names:
        text = await _text(hands.api, asked.number, LOG)
    else:
        text = "\n".join(part for part in (found.log_head, found.log_tail) if part)
    keep = bounds.head if asked.end == "head" else bounds.tail
    shown, long = keep(text, asked.chars_max)
    cut = [long] if long else []
    if not text:
        cut = ["it printed nothing" if found.is_over else "it is not over: follow it first"]
    return tells.Text(number=asked.number, name=LOG, text=shown, files=names, cut=cut)


async def read_profile(hands: Hands, asked: asks.ReadProfile) -> tells.Text:
    """A report of a profile as text. Errors: Refused; Failed."""
    found = await _submission(hands.api, asked.number)
    names = [one.name for one in found.files]
    name = asked.file or _report(found, names)
    if name not in names:
        known = ", ".join(names) or "none"
        what = f"submission {asked.number} has no file {name!r}: {known}"
        raise Refused("unknown_file", what, "file")
    if not name.endswith(READABLE):
        texts = ", ".join(one for one in names if one.endswith(READABLE)) or "none"
        raise Refused("not_text", f"{name} is no text; of text there is: {texts}", "file")
    text = await _text(hands.api, asked.number, name)
    shown, long = bounds.head(text, asked.chars_max)
    return tells.Text(
        number=asked.number, name=name, text=shown, files=names, cut=[long] if long else []
    )


def _report(found: Submission, names: Iterable[str]) -> str:
    """The first report in text. Errors: Refused where there is none, saying what to do."""
    for name in names:
        if name.startswith("profile") and name.endswith(READABLE):
            return name
    if not found.is_over:
        what = f"submission {found.number} is not over: follow it first"
    elif found.mode != "profile":
        what = f"submission {found.number} has mode {found.mode}: submit with mode profile"
    else:
        what = f"the profile of submission {found.number} left no report: see read_result"
    raise Refused("no_profile", what, "number")


async def _text(api: Api, number: int, name: str) -> str:
    """A file as text, as far as the limit."""
    kept = bytearray()
    async for piece in api.download(number, name):
        kept += piece
        if len(kept) > REPORT_BYTES_MAX:
            what = f"{name} is over {REPORT_BYTES_MAX:,} bytes: warpboard show {number} --save DIR"
            raise Refused("file_too_large", what, "file")
    return kept.decode(errors="replace")


async def compare(hands: Hands, asked: asks.Compare) -> tells.Compared:
    """Two submissions beside each other. Errors: Refused; Failed."""
    found = read(await hands.api.get("compare", a=asked.a, b=asked.b), Comparison)
    diff, long = bounds.head(found.diff or "", DIFF_CHARS_MAX)
    kept, cut = bounds.first(found.cases, TIMED_MAX, "cases")
    return tells.Compared(
        a=asked.a,
        b=asked.b,
        summary=_summary(found),
        cases=kept,
        score=found.score,
        diff=None if found.diff is None else diff,
        cut=[*([f"diff: {long}"] if long else []), *cut],
    )


def _summary(found: Comparison) -> str:
    """Whether b is faster, as far as the intervals tell."""
    score = found.score
    if score is None or score.ratio is None:
        return "no time of both is known: compare two of mode benchmark or ranked"
    said = f"b takes {score.ratio:.3f} times as long as a"
    if score.ci95 is None:
        return said
    low, high = score.ci95
    is_clear = not low <= 1 <= high
    verdict = "a difference" if is_clear else "no difference that these runs show"
    return f"{said} (95 %: {low:.3f} to {high:.3f}): {verdict}"
