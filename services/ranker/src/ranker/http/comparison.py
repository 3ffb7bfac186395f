"""Compares two submissions: their sources, their scores and the times of each case."""

import asyncio
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from math import isfinite
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from msgspec import convert

from ranker.domain.score import error_of_difference, interval_us
from ranker.http.access import CurrentReader, ReaderView, ReadSources, safe_case
from ranker.http.responses import NUMBER_MAX, json_response
from ranker.http.submissions import read_source_files
from shared.api.leaderboards import (
    ComparedCase,
    ComparedFile,
    ComparedSubmission,
    Comparison,
    FileChange,
)
from shared.blobs import BlobStore
from shared.clock import now
from shared.http import DocumentedRoute, TypedResponse
from shared.source_files import SourceFile

Row = dict[str, Any]

TIME = "time"


def compare_cases(a: Sequence[Row], b: Sequence[Row]) -> list[ComparedCase]:
    """The cases of two runs side by side, in the order of run a; ratios are b over a.

    The outcome of b is `faster` or `slower` where the 95 % interval excludes one, else `same`;
    `unknown` without an interval; or the change of the verdict, such as `passed to wrong_answer`.
    """
    cases_a, cases_b = _index_cases(a), _index_cases(b)
    return [
        _compare_case(key, cases_a.get(key), cases_b.get(key)) for key in {**cases_a, **cases_b}
    ]


def compare_scores(a: Row, b: Row) -> ComparedCase:
    """Compare the total scores of two runs."""
    times = ({**run, "time_us": run["score_us"]} for run in (a, b))
    return _compare_case(("score", "score", 0), *times)


def _index_cases(cases: Sequence[Row]) -> dict[tuple[str, str, int], Row]:
    """Cases by stage, name and number among those of the same name."""
    by_key: dict[tuple[str, str, int], Row] = {}
    for case in cases:
        stage, name = case["stage"], case["name"]
        nth = sum(key[:2] == (stage, name) for key in by_key)
        by_key[stage, name, nth] = case
    return by_key


def _compare_case(key: tuple[str, str, int], a: Row | None, b: Row | None) -> ComparedCase:
    a_us, b_us = _time(a), _time(b)
    ratio = b_us / a_us if a_us and b_us else None
    bounds = _bounds(ratio, a, b) if ratio and a and b else None
    verdict_a, verdict_b = (None if case is None else str(case["verdict"]) for case in (a, b))
    outcome = _outcome(ratio, bounds)
    if verdict_a != verdict_b:
        outcome = f"{verdict_a or 'missing'} to {verdict_b or 'missing'}"
    elif ratio is None and key[0] != TIME:
        outcome = "same"
    return ComparedCase(
        name=key[1],
        stage=key[0],
        a_us=a_us,
        b_us=b_us,
        ratio=ratio,
        ci95=bounds,
        outcome=outcome,
        a_verdict=verdict_a,
        b_verdict=verdict_b,
    )


def _time(case: Row | None) -> float | None:
    time_us = case.get("time_us") if case else None
    return time_us if time_us and time_us > 0 and isfinite(time_us) else None


def _bounds(ratio: float, a: Row, b: Row) -> tuple[float, float] | None:
    """The interval of the ratio, from the errors of both logarithms."""
    if a.get("error") is None or b.get("error") is None:
        return None
    errors = [(case["error"], case.get("freedom") or 0) for case in (a, b)]
    return interval_us(ratio, *error_of_difference(errors))


def _outcome(ratio: float | None, bounds: tuple[float, float] | None) -> str:
    """The outcome of a ratio with its interval.

    >>> _outcome(0.9, (0.85, 0.95)), _outcome(1.01, (0.99, 1.03)), _outcome(2.0, None)
    ('faster', 'same', 'unknown')
    """
    if ratio is None or bounds is None:
        return "unknown"
    low, high = bounds
    return "faster" if high < 1 else "slower" if low > 1 else "same"


CONTEXT_LINES = 3
# Hostile texts cost difflib more than the square of their lines: larger ones, after removing equal
# beginnings and ends, are shown as replaced.
PAIRS_MAX = 400_000

Step = tuple[str, int, int, int, int]


def unified_diff(
    before: Sequence[str],
    after: Sequence[str],
    names: tuple[str, str],
    pairs_max: int = PAIRS_MAX,
) -> Iterator[str]:
    """The lines of a unified diff; none if the texts are equal.

    >>> list(unified_diff(["a", "b"], ["a", "c"], ("one", "two")))
    ['--- one', '+++ two', '@@ -1,2 +1,2 @@', ' a', '-b', '+c']
    """
    matcher: SequenceMatcher[str] = SequenceMatcher(None, (), ())
    matcher.opcodes = _steps(before, after, pairs_max)  # type: ignore[attr-defined]
    groups = list(matcher.get_grouped_opcodes(CONTEXT_LINES))
    if groups:
        yield from (f"--- {names[0]}", f"+++ {names[1]}")
    for group in groups:
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@"
        for kind, left, right, low, high in group:
            if kind == "equal":
                yield from (f" {line}" for line in before[left:right])
                continue
            yield from (f"-{line}" for line in before[left:right])
            yield from (f"+{line}" for line in after[low:high])


def _steps(before: Sequence[str], after: Sequence[str], pairs_max: int) -> list[Step]:
    """The edit steps from one text to the other, in difflib's form."""
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    remaining = shorter - head
    tail = next((at for at in range(remaining) if before[-1 - at] != after[-1 - at]), remaining)
    left, right = before[head : len(before) - tail], after[head : len(after) - tail]
    steps: list[Step] = [("equal", 0, head, 0, head)] if head else []
    if len(left) * len(right) <= pairs_max:
        opcodes = SequenceMatcher(None, left, right).get_opcodes()
        steps += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in opcodes]
    else:
        steps.append(("replace", head, len(before) - tail, head, len(after) - tail))
    if tail:
        steps.append(
            ("equal", len(before) - tail, len(before), len(after) - tail, len(after)),
        )
    return steps


def _span(start: int, stop: int) -> str:
    """A line range as unified diffs write it: 1-based; an empty one names the line before."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


# A file has up to a million bytes; nobody reads a longer diff.
DIFF_LINES_MAX = 20_000
LINES_MAX = 5_000

Number = Annotated[int, Query(ge=1, le=NUMBER_MAX)]


def comparison_router(sources: ReadSources) -> APIRouter:
    """The route that compares two submissions."""
    router = APIRouter(route_class=DocumentedRoute)

    @router.get("/v1/compare")
    async def compare(
        request: Request, reader: CurrentReader, a: Number, b: Number
    ) -> TypedResponse[Comparison]:
        """How b differs from a; a ratio below one means that b is faster."""
        view = sources.view(reader)
        first, second = await view.submission(a), await view.submission(b)
        is_owner = view.owns(first) and view.owns(second)
        cases = [[safe_case(case) for case in row["cases"]] for row in (first, second)]
        files = await _diff_sources(view, sources.blobs, first, second)
        diffs = None if files is None else [file.diff for file in files if file.diff]
        body = Comparison(
            a=convert(first, ComparedSubmission),
            b=convert(second, ComparedSubmission),
            diff=None if diffs is None else "\n".join(diffs),
            files=files or [],
            score=compare_scores(first, second),
            cases=compare_cases(*cases) if is_owner else [],
        )
        return json_response(request, body)

    return router


async def _diff_sources(
    view: ReaderView, blobs: BlobStore, first: Row, second: Row
) -> list[ComparedFile] | None:
    """The files of two submissions side by side; None unless the reader may see both."""
    at = now()
    if view.source_hidden(first, at) or view.source_hidden(second, at):
        return None
    before, after = [await read_source_files(blobs, view, row) for row in (first, second)]
    if max(_count_lines(before), _count_lines(after)) > LINES_MAX:
        return None
    numbers = first["number"], second["number"]
    # In a thread, so that other reads do not wait.
    return await asyncio.to_thread(compare_files, before, after, numbers)


def _count_lines(files: Sequence[SourceFile]) -> int:
    return sum(len(file.text.splitlines()) for file in files)


def compare_files(
    first: Sequence[SourceFile], second: Sequence[SourceFile], numbers: tuple[int, int]
) -> list[ComparedFile]:
    """Compare the files of two submissions: the entry files, then the others by name."""
    before, after = ({file.name: file for file in files[1:]} for files in (first, second))
    pairs: list[tuple[SourceFile | None, SourceFile | None]] = [(first[0], second[0])]
    pairs += [(before.get(name), after.get(name)) for name in sorted({**before, **after})]
    labels = [f"submission {number}" for number in numbers]
    compared, lines_left = list[ComparedFile](), DIFF_LINES_MAX
    for pair in pairs:
        file = pair[1] or pair[0]
        assert file is not None, "a name comes from one of both"
        names = labels if len(pairs) == 1 else [f"{label}/{file.name}" for label in labels]
        old, new = [[] if side is None else side.text.splitlines() for side in pair]
        diff = unified_diff(old, new, (names[0], names[1]), PAIRS_MAX // len(pairs))
        lines = list(islice(diff, lines_left))
        lines_left -= len(lines)
        compared.append(ComparedFile(name=file.name, change=_change(*pair), diff="\n".join(lines)))
    return compared


def _change(before: SourceFile | None, after: SourceFile | None) -> FileChange:
    if before is None or after is None:
        return "removed" if after is None else "added"
    return "same" if before.data == after.data else "changed"
