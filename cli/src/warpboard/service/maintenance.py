"""What the maintenance of a log found: replay, audit, backup, restore, repair and collection."""

from collections.abc import Iterator

from shared.api.audits import AuditReport, LeaderboardRow
from shared.presentation.responses import JsonObject
from shared.presentation.units import (
    count_text,
    instant_text,
    one_line,
    pooled_text,
    rank_text,
    time_text,
)

FINDINGS_MAX = 20


def report_lines(report: AuditReport) -> Iterator[str]:
    """Describe the audit: what was checked, every row with its events, and the verdict last."""
    board = report.board
    moment = f", as of {report.as_of}" if report.as_of else ""
    name = f"{board.problem} on {board.gpu}, version {board.number}"
    yield f"{name}{moment}, event {report.seq}"
    yield f"  log    {count_text(report.events, 'event')}, chain {report.chain}"
    keys = f"checked with {', '.join(report.keys)}" if report.keys else "no key to check with"
    yield f"  seals  {report.seals}, {keys}"
    yield f"  runs   {report.verified_runs} signed by enrolled agents"
    if report.live_seq is not None:
        equal = "NOT equal" if report.differences else "equal"
        yield f"  live   {equal} at event {report.live_seq}"
    for ignored in report.ignored[:FINDINGS_MAX]:
        yield f"  ignored event {ignored.seq}: {one_line(ignored.what)}"
    for row in report.rows:
        yield from _row_lines(row)
    yield from _verdict_lines(report)


def _row_lines(row: LeaderboardRow) -> Iterator[str]:
    rank = rank_text(row.rank, is_tied=row.is_tied)
    pooled = pooled_text(row.pooled_over)
    score = f"{time_text(row.score_us)} by {row.account}"
    yield f"{rank:>4}  {score}, submission {row.number}{pooled}, because"
    for event in row.because:
        author = f"{event.type} by {event.actor}"
        yield (
            f"      {event.seq:>6}  {instant_text(event.at)}  {author}: {one_line(event.sentence)}"
        )


def _verdict_lines(report: AuditReport) -> Iterator[str]:
    if report.is_clean:
        yield "clean: the leaderboard is what the log says, and the log is untouched"
        return
    for finding in report.findings[:FINDINGS_MAX]:
        yield f"NOT CLEAN from event {finding.seq} on: {one_line(finding.what)}"
    for difference in report.differences[:FINDINGS_MAX]:
        yield f"NOT EQUAL: {one_line(difference)}"


def replay_line(answer: JsonObject) -> str:
    """Describe how a rebuilt projection compares with the live one.

    >>> replay_line({"is_equal": True, "seq": 90, "entries": 1, "submissions": 4})
    'rebuilt from event 1: equal (up to event 90: 1 entry, 4 submissions)'
    >>> replay_line({"is_equal": False, "seq": 9, "rows": {"event_archive": 9}})
    'rebuilt from event 1: NOT equal (up to event 9: event_archive 9)'
    """
    result = "equal" if answer.get("is_equal") else "NOT equal"
    rows = answer.get("rows", {})
    if "event_archive" in rows:
        counts = f"event_archive {rows['event_archive']}"
    else:
        entries = answer.get("entries", 0)
        counts = f"{entries} " + ("entry" if entries == 1 else "entries")
        counts += f", {count_text(answer.get('submissions', 0), 'submission')}"
    return f"rebuilt from event 1: {result} (up to event {answer.get('seq')}: {counts})"


def replay_lines(answer: JsonObject) -> Iterator[str]:
    """Describe the same with each differing row, and whether readers see the result now."""
    yield replay_line(answer)
    for difference in answer.get("differences", ()):
        rows = f"live {difference.get('live')}, rebuilt {difference.get('rebuilt')}"
        yield f"{difference.get('kind')}: {rows}"
    if answer.get("is_switched"):
        yield "switched: readers see the rebuilt rows"


def export_lines(answer: JsonObject) -> Iterator[str]:
    """Describe what was written."""
    yield f"{count_text(answer['events'], 'event')} in {answer['file']}, chain {answer['chain']}"
    if "blobs" in answer:
        yield f"{count_text(answer['blobs'], 'blob')} beside it, in {answer['file']}.blobs.tar"
    if "participants" in answer:
        participants = count_text(answer["participants"], "participant")
        file = f"{answer['file']}.accounts.tar.gz"
        yield f"{participants} with names and webhooks in {file}: keep it secret"
    if answer.get("left_out"):
        yield f"LEFT OUT: {', '.join(answer['left_out'])}; this alone does not restore the platform"
    if answer.get("blobs_missing"):
        yield f"MISSING: {count_text(len(answer['blobs_missing']), 'blob')} that events name"


def import_lines(answer: JsonObject) -> Iterator[str]:
    """Describe what was restored."""
    blobs = count_text(answer["blobs"], "blob")
    yield f"{count_text(answer['events'], 'event')} and {blobs} imported, chain {answer['chain']}"
    if answer.get("participants"):
        participants = count_text(answer["participants"], "participant")
        yield f"{participants} restored with names and webhooks"
    if answer.get("lacking"):
        yield f"NOT RESTORED: {', '.join(answer['lacking'])}"
    if answer.get("blobs_missing"):
        yield f"MISSING: {count_text(len(answer['blobs_missing']), 'blob')} that events name"
    yield f"recorded as event {answer['recorded_seq']}; warpboard up folds the read models again"


def scrub_lines(answer: JsonObject) -> Iterator[str]:
    """Describe how the log compares with its archive.

    >>> nothing = {"count": 0, "ranges": []}
    >>> said = {"is_clean": False, "last_seq": 9, "log_last_seq": 9, "archive_last_seq": 8}
    >>> said |= {"missing": {"count": 3, "ranges": [[2, 3], [7, 7]]}, "unarchived": nothing}
    >>> said |= {"lost": nothing, "differing": nothing, "archive_findings": []}
    >>> for line in scrub_lines(said):
    ...     print(line)
    log: 9 events, archive: 8 events
    MISSING from the log: 3 events: 2 to 3, 7
    NOT CLEAN: see docs/operating/log-damaged.md
    """
    log, archive = answer["log_last_seq"], answer["archive_last_seq"]
    yield f"log: {count_text(log, 'event')}, archive: {count_text(archive, 'event')}"
    for part, description in (
        ("missing", "MISSING from the log"),
        ("lost", "LOST from log and archive"),
        ("differing", "DIFFERENT in log and archive"),
        ("unarchived", "not archived yet"),
    ):
        if answer[part]["count"]:
            count = count_text(answer[part]["count"], "event")
            yield f"{description}: {count}: {_ranges_text(answer[part])}"
    for finding in answer["archive_findings"][:FINDINGS_MAX]:
        yield f"ARCHIVE NOT CLEAN from event {finding['seq']} on: {one_line(finding['what'])}"
    if answer["is_clean"]:
        yield "clean: the log has every event, and the archive has the same ones"
    else:
        yield "NOT CLEAN: see docs/operating/log-damaged.md"


def _ranges_text(answer: JsonObject) -> str:
    """Return the first ranges of some sequences."""
    ranges = answer["ranges"]
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in ranges]
    more = ", and more" if len(texts) > FINDINGS_MAX else ""
    return ", ".join(texts[:FINDINGS_MAX]) + more


def repair_lines(answer: JsonObject) -> Iterator[str]:
    """Describe what was restored from the archive."""
    yield from (line for line in scrub_lines(answer) if not line.startswith("NOT CLEAN"))
    if not answer["is_repaired"]:
        return
    yield f"repaired: {count_text(answer['events'], 'event')}, chain {answer['chain']}"
    yield f"recorded as event {answer['recorded_seq']}; all of it is in {answer['file']} too"


def collection_lines(answer: JsonObject) -> Iterator[str]:
    """Describe what a collection of blobs removed, or would remove."""
    action = "would be removed" if answer["is_trial"] else "removed"
    size = f"{answer['removed_bytes']:,} bytes"
    yield f"{count_text(answer['removed'], 'blob')} that no event names {action} ({size})"
    yield f"of {count_text(answer['blobs'], 'blob')}, {answer['blobs_old']} older than two days"
    if answer["is_trial"] and answer["removed"]:
        yield "to remove them: warpboard server gc --apply --reason TEXT"
