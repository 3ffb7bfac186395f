"""Runs the audit of a contest: fold its standing again from the log, compare it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ranker.audit.log_audit import LogAudit, LogCopy, is_equal
from ranker.domain.contest_fold import ContestFold
from ranker.domain.contests import find_round
from ranker.domain.stored_log import PublishedSeal, Verify
from shared.api.audits import AuditedResults, ContestAuditReport, ContestAuditRequest
from shared.api.contest_standings import ContestStandingRow, DivisionStanding
from shared.contests.definition import ContestPlace
from shared.errors import Refused

ROW_FIELDS = ("rank", "is_tied", "points", "name", "members", "is_finalist")
ENTRY_FIELDS = ("gpu", "rank", "is_tied", "number", "score_us", "points", "is_counted")


class LiveContest(NamedTuple):
    """What organisers see: the standing of one contest, folded up to a sequence."""

    seq: int
    at: datetime
    divisions: Sequence[DivisionStanding]
    results: Mapping[str, Sequence[ContestPlace]] = {}


async def audit_contest(
    request: ContestAuditRequest,
    copy: LogCopy,
    verify: Verify,
    live: LiveContest | None = None,
    published: Sequence[PublishedSeal] = (),
) -> ContestAuditReport:
    """Audit the standing of a contest; the log must still have the published seals.

    Raises Refused if the contest did not exist by then.
    """
    state = ContestFold(request.contest)
    log = LogAudit(request, verify, (state.fold,))
    await log.read(copy, published)
    contest, at = state.contest, request.as_of or (live.at if live else log.at)
    if contest is None or at is None:
        raise Refused("not_found", f"there was no contest {request.contest!r}", "contest")
    round_ = request.round or find_round(contest, at)
    divisions = state.derive(round_, None, at)
    differences = find_contest_differences(divisions, live.divisions) if live else []
    results = state.derive_results()
    if live is not None:
        differences += _compare_results(results, live.results)
    findings = [*log.findings(), *state.results.findings]
    return ContestAuditReport(
        **log.fields(findings, live.seq if live else None, differences),
        ignored=log.ignored.findings,
        contest=contest.slug,
        title=contest.title,
        version=state.number,
        round=round_,
        divisions=divisions,
        results=results,
    )


def _compare_results(
    expected: AuditedResults | None, shown: Mapping[str, Sequence[ContestPlace]]
) -> list[str]:
    """Where shown results differ from the log; `shown` are the places by their stage."""
    places = [
        ContestPlace(
            contestant=it.contestant, division=it.division, place=it.place, points=it.points
        )
        for it in (expected.places if expected else ())
    ]
    stages = {"proposed": places} if expected else {}
    if expected and expected.confirmed_seq is not None:
        stages["confirmed"] = places
    return [
        f"the {stage} results are shown with other places than the log gives"
        for stage in ("proposed", "confirmed")
        # Earlier results that were confirmed stay in the table when others are proposed.
        if (stage in stages or stage == "proposed")
        and list(shown.get(stage, ())) != list(stages.get(stage, ()))
    ]


def find_contest_differences(
    expected: Iterable[DivisionStanding], shown: Iterable[DivisionStanding]
) -> list[str]:
    """Where a shown standing differs from the log, one sentence per contestant and value."""
    rows = {(part.division, row.contestant): row for part in expected for row in part.rows}
    shown_rows = {(part.division, row.contestant): row for part in shown for row in part.rows}
    sentences = []
    for key in sorted(rows.keys() | shown_rows.keys()):
        division, contestant = key
        where = f"{contestant} in {division}" if division else contestant
        if key not in shown_rows:
            sentences.append(f"{where} is missing: the log gives place {rows[key].rank}")
        elif key not in rows:
            rank = shown_rows[key].rank
            sentences.append(f"{where} is shown at place {rank}: the log gives no place")
        else:
            sentences += _compare_rows(where, rows[key], shown_rows[key])
    return sentences


def _compare_rows(
    where: str, expected: ContestStandingRow, row: ContestStandingRow
) -> Iterator[str]:
    for name in ROW_FIELDS:
        yield from _compare(f"{where}: {name}", getattr(expected, name), getattr(row, name))
    entries = {entry.problem: entry for entry in expected.entries}
    shown_entries = {entry.problem: entry for entry in row.entries}
    yield from _compare(f"{where}: problems", sorted(entries), sorted(shown_entries))
    for problem in sorted(entries.keys() & shown_entries.keys()):
        for name in ENTRY_FIELDS:
            value = getattr(entries[problem], name)
            shown_value = getattr(shown_entries[problem], name)
            yield from _compare(f"{where}: {name} on {problem}", value, shown_value)


def _compare(what: str, expected: Any, shown: Any) -> Iterator[str]:
    if not is_equal(expected, shown):
        yield f"{what} is shown as {shown}, the log gives {expected}"
