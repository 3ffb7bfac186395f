"""Runs the audit of a leaderboard: fold it again from the log, compare it with the live one."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import structs

from ranker.audit.log_audit import LogAudit, LogCopy, is_equal
from ranker.audit.report import AuditTrail
from ranker.audit.signatures import ResultVerifier
from ranker.domain.rows import LeaderboardKey
from ranker.domain.standings import Standings
from ranker.domain.stored_log import PublishedSeal, Verify
from shared.api.audits import AuditedLeaderboard, AuditReport, AuditRequest, LeaderboardRow
from shared.errors import Refused

# The compared fields of an entry, and those that are compared only where they are shown.
ENTRY_FIELDS = (
    *("submission", "number", "source", "pooled_over"),
    *("score_us", "error", "freedom", "delta"),
)
PLACE_FIELDS = ("rank", "best_rank", "is_tied", "duel", "confirmation")


class LiveLeaderboard(NamedTuple):
    """What readers see: the entries of one leaderboard, folded up to a sequence."""

    seq: int
    at: datetime
    entries: Sequence[dict[str, Any]]


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
    standings = Standings()
    reasons = AuditTrail(request.problem, request.gpu)
    results = ResultVerifier(request.problem, request.gpu, verify)
    log = LogAudit(request, verify, (standings.fold, reasons.fold, results.fold))
    await log.read(copy, published)
    board = _find_board(request, standings)
    at = request.as_of or (live.at if live else log.at)
    rows = standings.board(board, at) if at else []
    runs = results.findings(standings.counting(board), board.problem_number)
    findings = [*log.findings(), *runs]
    differences = find_differences(rows, live.entries) if live else []
    # Verdicts that are refused and count anyway are among the findings.
    counted = {finding.seq for finding in findings}
    refused = (finding for finding in results.refused if finding.seq not in counted)
    return AuditReport(
        **log.fields(findings, live.seq if live else None, differences),
        board=AuditedLeaderboard(problem=board.problem, number=board.problem_number, gpu=board.gpu),
        verified_runs=results.verified,
        rows=[structs.replace(row, because=reasons.explain(row, board)) for row in rows],
        ignored=sorted({*log.ignored.findings, *refused}),
    )


def _find_board(request: AuditRequest, standings: Standings) -> LeaderboardKey:
    """The requested leaderboard. Raises Refused."""
    newest = standings.newest.get(request.problem)
    if newest is None:
        raise Refused("unknown_problem", f"there was no problem {request.problem!r}", "problem")
    if request.gpu not in newest.gpus:
        known = ", ".join(newest.gpus)
        reason = f"{request.problem} has no GPU type {request.gpu!r}: {known}"
        raise Refused("unknown_gpu", reason, "gpu")
    return LeaderboardKey(request.problem, request.gpu, request.version or newest.number)


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
        if not is_equal(expected[name], entry[name])
    ]
