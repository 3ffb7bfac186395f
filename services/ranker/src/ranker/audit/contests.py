"""Runs the audit of a contest: check every event, fold the standing again, compare it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from math import isclose
from typing import Any, NamedTuple

import msgspec

from ranker.audit.auditor import TOLERANCE, LogCopy
from ranker.domain.contest_fold import ContestFold
from ranker.domain.contests import find_round
from ranker.domain.stored_log import ChainVerifier, PublishedSeal, StoredEvent, Verify
from shared.api.audits import ContestAuditReport, ContestAuditRequest, Finding
from shared.api.contest_standings import ContestStandingRow, DivisionStanding
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.events import EventSkipped
from shared.wire import UNREADABLE, UnknownEvent, is_genuine, is_noise, is_written_by_agent

ROW_FIELDS = ("rank", "is_tied", "points", "name", "members", "is_finalist")
ENTRY_FIELDS = ("gpu", "rank", "is_tied", "number", "score_us", "points", "is_counted")


class LiveContest(NamedTuple):
    """What organisers see: the standing of one contest, folded up to a sequence."""

    seq: int
    at: datetime
    divisions: Sequence[DivisionStanding]


class _ContestAudit:
    def __init__(self, request: ContestAuditRequest, verify: Verify) -> None:
        self.request = request
        self.verifier = ChainVerifier(request.keys, verify)
        self.state = ContestFold(request.contest)
        self.seq = 0
        self.at: datetime | None = None
        self.unreadable: dict[int, str] = {}

    def look(self, stored: StoredEvent) -> None:
        """Fold the next event."""
        event = self.verifier.look(stored)
        if event is None or not self._is_by_then(event):
            return
        self.seq = event.seq
        if event.envelope.type == UNREADABLE:
            if not is_noise(event.envelope):
                self.unreadable[event.seq] = "it is not a readable event"
            return
        self.at = event.envelope.at
        try:
            if event.envelope.type == "EventSkipped" and is_genuine(event.envelope):
                fact = event.fact
                assert isinstance(fact, EventSkipped)
                # The live projection skipped it, and so does this one.
                self.unreadable.pop(fact.seq, None)
            self.state.fold(event)
        except (msgspec.MsgspecError, UnknownEvent) as error:
            if not is_written_by_agent(event.envelope) or isinstance(error, UnknownEvent):
                self.unreadable[event.seq] = f"the event cannot be folded: {error}"

    def _is_by_then(self, event: RecordedEvent) -> bool:
        as_of, as_of_seq = self.request.as_of, self.request.as_of_seq
        if as_of is not None and event.envelope.at > as_of:
            return False
        return as_of_seq is None or event.seq <= as_of_seq


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
    audit = _ContestAudit(request, verify)
    async for event in copy.events():
        audit.look(event)
    audit.verifier.finish()
    audit.verifier.compare(published)
    contest, at = audit.state.contest, request.as_of or (live.at if live else audit.at)
    if contest is None or at is None:
        raise Refused("not_found", f"there was no contest {request.contest!r}", "contest")
    round_ = request.round or find_round(contest, at)
    divisions = audit.state.derive(round_, None, at)
    unreadable = [Finding(seq, reason) for seq, reason in audit.unreadable.items()]
    findings = [*audit.verifier.findings, *unreadable, *copy.findings()]
    differences = find_contest_differences(divisions, live.divisions) if live else []
    return ContestAuditReport(
        is_clean=not (findings or differences),
        contest=contest.slug,
        title=contest.title,
        version=audit.state.number,
        round=round_,
        as_of=request.as_of,
        seq=audit.seq,
        events=audit.verifier.seq,
        chain=audit.verifier.chain,
        seals=audit.verifier.seals,
        keys=list(request.keys),
        divisions=divisions,
        findings=sorted(findings, key=lambda finding: finding.seq),
        live_seq=live.seq if live else None,
        differences=differences,
        key_changes=audit.verifier.key_changes,
    )


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
    is_equal = expected == shown
    if isinstance(expected, float) and isinstance(shown, float):
        is_equal = isclose(expected, shown, rel_tol=TOLERANCE)
    if not is_equal:
        yield f"{what} is shown as {shown}, the log gives {expected}"
