"""Runs one audit: check every event, fold the leaderboard again, compare it with the live one."""

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from math import isclose
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import structs

from ranker.audit.report import AuditTrail
from ranker.audit.signatures import ResultVerifier
from ranker.domain.rows import LeaderboardKey
from ranker.domain.standings import Standings
from ranker.domain.stored_log import ChainVerifier, PublishedSeal, StoredEvent, Verify
from shared.api.audits import (
    AuditedLeaderboard,
    AuditReport,
    AuditRequest,
    Finding,
    LeaderboardRow,
)
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.events import CATALOGUE, EventSkipped, Fact, JobAssigned, RunDiscarded, RunStarted
from shared.subjects import history_of
from shared.wire import (
    UNREADABLE,
    UnknownEvent,
    forgery_reason,
    is_genuine,
    is_noise,
    is_written_by_agent,
)

# SQL and Python add numbers in a different order.
TOLERANCE = 1e-9
# The compared fields of an entry, and those that are compared only where they are shown.
ENTRY_FIELDS = (
    *("submission", "number", "source", "pooled_over"),
    *("score_us", "error", "freedom", "delta"),
)
PLACE_FIELDS = ("rank", "best_rank", "is_tied", "duel", "confirmation")


class LogCopy(Protocol):
    """A source of events that also reports what is wrong with itself."""

    def events(self) -> AsyncIterator[StoredEvent]:
        """Every event, in order."""

    def findings(self) -> Sequence[Finding]:
        """What is wrong with the copy as a whole, after all events were read."""


class LiveLeaderboard(NamedTuple):
    """What readers see: the entries of one leaderboard, folded up to a sequence."""

    seq: int
    at: datetime
    entries: Sequence[dict[str, Any]]


class _Audit:
    def __init__(self, request: AuditRequest, verify: Verify) -> None:
        self.request = request
        self.verifier = ChainVerifier(request.keys, verify)
        self.standings = Standings()
        self.reasons = AuditTrail(request.problem, request.gpu)
        self.results = ResultVerifier(request.problem, request.gpu, verify)
        self.dropped = IgnoredEvents()
        self.seq = 0
        self.at: datetime | None = None
        self.unreadable: dict[int, str] = {}

    def look(self, stored: StoredEvent) -> None:
        """Fold the next event."""
        event = self.verifier.look(stored)
        if event is None or not self._is_by_then(event):
            return
        self.seq = event.seq
        self.dropped.look(event)
        if event.envelope.type == UNREADABLE:
            if not is_noise(event.envelope):
                self.unreadable[event.seq] = "it is not a readable event"
            return
        self.at = event.envelope.at
        try:
            self._fold(event)
        except (msgspec.MsgspecError, UnknownEvent) as error:
            if is_written_by_agent(event.envelope) and not isinstance(error, UnknownEvent):
                self.dropped.add(event.seq, f"the event cannot be read: {error}")
                return
            self.unreadable[event.seq] = f"the event cannot be folded: {error}"

    def _is_by_then(self, event: RecordedEvent) -> bool:
        as_of, as_of_seq = self.request.as_of, self.request.as_of_seq
        if as_of is not None and event.envelope.at > as_of:
            return False
        return as_of_seq is None or event.seq <= as_of_seq

    def _fold(self, event: RecordedEvent) -> None:
        if event.envelope.type == "EventSkipped" and is_genuine(event.envelope):
            fact = event.fact
            assert isinstance(fact, EventSkipped)
            # The live projection skipped it, and so does this one.
            self.unreadable.pop(fact.seq, None)
        for fold in (self.standings.fold, self.reasons.fold, self.results.fold):
            fold(event)

    def findings(self, board: LeaderboardKey) -> list[Finding]:
        """What is wrong with the log and with the runs behind the leaderboard."""
        counting = self.standings.counting(board)
        unreadable = [Finding(seq, reason) for seq, reason in self.unreadable.items()]
        runs = self.results.findings(counting, board.problem_number)
        return [*self.verifier.findings, *unreadable, *runs]

    def ignored(self, findings: Iterable[Finding]) -> list[Finding]:
        """The ignored events; verdicts that count anyway are among `findings`."""
        counted = {finding.seq for finding in findings}
        refused = (finding for finding in self.results.refused if finding.seq not in counted)
        return sorted({*self.dropped.findings, *refused})

    def board(self) -> LeaderboardKey:
        """The requested leaderboard. Raises Refused."""
        request = self.request
        newest = self.standings.newest.get(request.problem)
        if newest is None:
            raise Refused("unknown_problem", f"there was no problem {request.problem!r}", "problem")
        if request.gpu not in newest.gpus:
            known = ", ".join(newest.gpus)
            reason = f"{request.problem} has no GPU type {request.gpu!r}: {known}"
            raise Refused("unknown_gpu", reason, "gpu")
        return LeaderboardKey(request.problem, request.gpu, request.version or newest.number)


async def audit(
    request: AuditRequest,
    copy: LogCopy,
    verify: Verify,
    live: LiveLeaderboard | None = None,
    published: Sequence[PublishedSeal] = (),
) -> AuditReport:
    """Audit a leaderboard; the log must still have the published seals.

    Raises Refused if the leaderboard never existed.
    """
    state = _Audit(request, verify)
    async for event in copy.events():
        state.look(event)
    state.verifier.finish()
    state.verifier.compare(published)
    board = state.board()
    at = request.as_of or (live.at if live else state.at)
    rows = state.standings.board(board, at) if at else []
    findings = [*state.findings(board), *copy.findings()]
    differences = find_differences(rows, live.entries) if live else []
    return AuditReport(
        is_clean=not (findings or differences),
        board=AuditedLeaderboard(problem=board.problem, number=board.problem_number, gpu=board.gpu),
        as_of=request.as_of,
        seq=state.seq,
        events=state.verifier.seq,
        chain=state.verifier.chain,
        seals=state.verifier.seals,
        keys=list(request.keys),
        key_changes=state.verifier.key_changes,
        verified_runs=state.results.verified,
        rows=[structs.replace(row, because=state.reasons.explain(row, board)) for row in rows],
        findings=sorted(findings, key=lambda finding: finding.seq),
        ignored=state.ignored(findings),
        live_seq=live.seq if live else None,
        differences=differences,
    )


def find_differences(
    rows: Iterable[LeaderboardRow], entries: Iterable[dict[str, Any]]
) -> list[str]:
    """Where the shown entries differ from the log, one sentence per account."""
    expected = {row.account: row for row in rows}
    live = {entry["account"]: entry for entry in entries}
    sentences = []
    for account in sorted(expected.keys() | live.keys()):
        if account not in live:
            sentences.append(
                f"{account} is missing: the log gives submission {expected[account].number}"
            )
        elif account not in expected:
            number = live[account]["number"]
            sentences.append(f"{account} is shown with submission {number}: the log gives no entry")
        else:
            sentences += _compare_entry(expected[account], live[account])
    return sentences


def _compare_entry(row: LeaderboardRow, entry: dict[str, Any]) -> list[str]:
    expected = structs.asdict(row) | {"pooled_over": list(row.pooled_over)}
    entry = {name: expected[name] for name in PLACE_FIELDS} | entry
    return [
        f"{row.account}: {name} is shown as {entry[name]}, the log gives {expected[name]}"
        for name in (*ENTRY_FIELDS, *PLACE_FIELDS)
        if not _is_equal(expected[name], entry[name])
    ]


def _is_equal(first: object, second: object) -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return isclose(first, second, rel_tol=TOLERANCE)
    return first == second


IGNORED_MAX = 100


class IgnoredEvents:
    """Names the events that every reader ignores, up to 100 of them."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._open: set[str] = set()
        self._started: set[str] = set()
        self._ended: set[str] = set()

    def look(self, event: RecordedEvent) -> None:
        """Check the next event."""
        reason = forgery_reason(event.envelope) or self._find_misplaced(event)
        if reason:
            self.add(event.seq, reason)

    def add(self, seq: int, reason: str) -> None:
        """Add an event."""
        if len(self.findings) < IGNORED_MAX:
            self.findings.append(Finding(seq, reason))

    def _find_misplaced(self, event: RecordedEvent) -> str:
        """Why an event of a run is ignored although its writer is right, or ""."""
        envelope = event.envelope
        if is_noise(envelope):
            return f"the message on {envelope.aggregate} is not an event"
        run, kind = history_of(envelope.aggregate), CATALOGUE.get(envelope.type)
        if not run.startswith("run.") or envelope.type == UNREADABLE:
            return ""
        if run in self._ended:
            late = f"{envelope.type} comes after the end of {run}"
            return "" if kind is RunDiscarded else late
        return self._find_out_of_turn(run, envelope.type, kind)

    def _find_out_of_turn(self, run: str, name: str, kind: type[Fact] | None) -> str:
        """Why an event before the end of its run is ignored, or ""; also tracks the run's state."""
        if kind is JobAssigned:
            self._open.add(run)
        elif run not in self._open:
            return f"{name} is on {run}, which was not assigned to any agent"
        if kind is RunStarted and run in self._started:
            return f"{run} has already started"
        if kind is RunStarted:
            self._started.add(run)
        if kind is not None and kind.is_terminal:
            self._open.discard(run)
            self._started.discard(run)
            self._ended.add(run)
        return ""
