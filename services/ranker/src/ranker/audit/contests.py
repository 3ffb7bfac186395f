"""Runs the audit of a contest: fold its standing again from the log, compare it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ranker.audit.log_audit import LogAudit, LogCopy, is_equal
from ranker.domain.contest_fold import ContestFold
from ranker.domain.contests import find_round
from ranker.domain.stored_log import PublishedSeal, Verify
from shared import events, subjects
from shared.api.audits import AuditedResults, ContestAuditReport, ContestAuditRequest, Finding
from shared.api.contest_standings import ContestStandingRow, DivisionStanding
from shared.contests.definition import ContestPlace
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.wire import is_genuine

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
    proposals = ProposalCheck(state)
    log = LogAudit(request, verify, (proposals.fold, state.fold))
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
    findings = [*log.findings(), *proposals.list_findings(), *state.results.findings]
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


class ProposalCheck:
    """Compares results with the standing at the event that proposed them.

    It folds each event before the `state` does. Results that were replaced before they were
    confirmed do not matter: a proposal is outdated if something was decided meanwhile.
    """

    def __init__(self, state: ContestFold) -> None:
        self._state = state
        self._proposed: Finding | None = None
        self._confirmed: list[Finding] = []

    def list_findings(self) -> list[Finding]:
        """List confirmed or newest results that differ from the standing at their proposal."""
        newest = [] if self._proposed is None else [self._proposed]
        return [*self._confirmed, *newest]

    def fold(self, event: RecordedEvent) -> None:
        """Compare the places of a proposal. Raises UnknownEvent."""
        envelope = event.envelope
        if envelope.aggregate != subjects.contest(self._state.slug) or not is_genuine(envelope):
            return
        fact = event.fact
        if isinstance(fact, events.ContestResultsProposed):
            difference = self._find_difference(fact.places, envelope.at)
            self._proposed = Finding(event.seq, difference) if difference else None
        elif isinstance(fact, events.ContestResultsConfirmed) and self._proposed is not None:
            self._confirmed.append(self._proposed)
            self._proposed = None

    def _find_difference(self, proposed: Iterable[ContestPlace], at: datetime) -> str:
        """How places differ from the standing at an instant, "" if they do not."""
        contest = self._state.contest
        if contest is None:
            return "results were proposed before the contest was published"
        divisions = self._state.derive(find_round(contest, at), None, at)
        expected = {
            (part.division, row.contestant): (row.rank, row.points)
            for part in divisions
            for row in part.rows
        }
        places = {(it.division, it.contestant): (it.place, it.points) for it in proposed}
        for key in sorted(expected.keys() | places.keys()):
            proposal, right = places.get(key), expected.get(key)
            if proposal is None or right is None or not all(map(is_equal, proposal, right)):
                division, contestant = key
                stated = f"{_say_place(proposal)} for {contestant} in {division}"
                return f"results were proposed with {stated}: the log gives {_say_place(right)}"
        return ""


def _say_place(place: tuple[int, float] | None) -> str:
    return "no place" if place is None else f"place {place[0]} and {place[1]:g} points"


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
