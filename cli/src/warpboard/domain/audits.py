"""What an audit found, and what a replay, a copy and a collection did, in lines."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from shared.telling.ranks import pooled_text, rank_text
from warpboard.domain.answers import Answer
from warpboard.domain.units import count_text, one_line, time_text, when

FINDINGS_MAX = 20


class Because(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a row hangs on."""

    seq: int
    type: str
    at: datetime
    actor: str
    sentence: str


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the leaderboard, as the log says it."""

    rank: int
    account: str
    number: int
    score_us: float
    is_tied: bool = False
    pooled_over: list[int] = []
    because: list[Because] = []


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it must be, and from which event on."""

    seq: int
    what: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """An audit of one leaderboard; the `ignored` events are forged, and no reader takes them."""

    is_clean: bool
    board: dict[str, Any]
    seq: int
    events: int
    chain: str
    seals: int
    verified_runs: int
    keys: list[str] = []
    rows: list[Audited] = []
    findings: list[Finding] = []
    ignored: list[Finding] = []
    differences: list[str] = []
    as_of: str | None = None
    live_seq: int | None = None


def report_lines(found: Report) -> Iterator[str]:
    """The whole report: what was checked, every row with its events, the verdict last."""
    board = found.board
    moment = f", as of {found.as_of}" if found.as_of else ""
    name = f"{board.get('problem')} on {board.get('gpu')}, version {board.get('number')}"
    yield f"{name}{moment}, event {found.seq}"
    yield f"  log    {count_text(found.events, 'event')}, chain {found.chain}"
    keys = f"checked with {', '.join(found.keys)}" if found.keys else "no key to check with"
    yield f"  seals  {found.seals}, {keys}"
    yield f"  runs   {found.verified_runs} signed by enrolled agents"
    if found.live_seq is not None:
        equal = "NOT equal" if found.differences else "equal"
        yield f"  live   {equal} at event {found.live_seq}"
    for one in found.ignored[:FINDINGS_MAX]:
        yield f"  ignored event {one.seq}: {one_line(one.what)}"
    for row in found.rows:
        yield from _row(row)
    yield from _verdict(found)


def _row(row: Audited) -> Iterator[str]:
    rank = rank_text(row.rank, is_tied=row.is_tied)
    pooled = pooled_text(row.pooled_over)
    score = f"{time_text(row.score_us)} by {row.account}"
    yield f"{rank:>4}  {score}, submission {row.number}{pooled}, because"
    for one in row.because:
        said = one_line(one.sentence)
        yield f"      {one.seq:>6}  {when(one.at)}  {one.type} by {one.actor}: {said}"


def _verdict(found: Report) -> Iterator[str]:
    if found.is_clean:
        yield "clean: the leaderboard is what the log says, and the log is untouched"
        return
    for one in found.findings[:FINDINGS_MAX]:
        yield f"NOT CLEAN from event {one.seq} on: {one_line(one.what)}"
    for difference in found.differences[:FINDINGS_MAX]:
        yield f"NOT EQUAL: {one_line(difference)}"


def replay_line(said: Answer) -> str:
    """How a projection folded anew compares with the live one.

    >>> replay_line({"is_equal": True, "seq": 90, "entries": 1, "submissions": 4})
    'rebuilt from event 1: equal (up to event 90: 1 entry, 4 submissions)'
    >>> replay_line({"is_equal": False, "seq": 9, "rows": {"event_archive": 9}})
    'rebuilt from event 1: NOT equal (up to event 9: event_archive 9)'
    """
    word = "equal" if said.get("is_equal") else "NOT equal"
    rows = said.get("rows", {})
    if "event_archive" in rows:
        counted = f"event_archive {rows['event_archive']}"
    else:
        entries = said.get("entries", 0)
        counted = f"{entries} " + ("entry" if entries == 1 else "entries")
        counted += f", {count_text(said.get('submissions', 0), 'submission')}"
    return f"rebuilt from event 1: {word} (up to event {said.get('seq')}: {counted})"


def replay_lines(said: Answer) -> Iterator[str]:
    """The same with each row in which they differ, and whether readers see it now."""
    yield replay_line(said)
    for one in said.get("differences", ()):
        yield f"{one.get('kind')}: live {one.get('live')}, rebuilt {one.get('rebuilt')}"
    if said.get("is_switched"):
        yield "switched: readers see what was folded anew"


def export_lines(said: Answer) -> Iterator[str]:
    """What was written."""
    yield f"{count_text(said['events'], 'event')} in {said['file']}, chain {said['chain']}"
    if "blobs" in said:
        yield f"{count_text(said['blobs'], 'blob')} beside it, in {said['file']}.blobs.tar"
    if "participants" in said:
        people = count_text(said["participants"], "participant")
        yield f"{people} with names and webhooks in {said['file']}.accounts.tar.gz: keep it secret"
    if said.get("left_out"):
        yield f"LEFT OUT: {', '.join(said['left_out'])}; this alone does not restore the platform"
    if said.get("blobs_missing"):
        yield f"MISSING: {count_text(len(said['blobs_missing']), 'blob')} that events name"


def import_lines(said: Answer) -> Iterator[str]:
    """What is there now."""
    blobs = count_text(said["blobs"], "blob")
    yield f"{count_text(said['events'], 'event')} and {blobs} imported, chain {said['chain']}"
    if said.get("participants"):
        yield f"{count_text(said['participants'], 'participant')} restored with names and webhooks"
    if said.get("lacking"):
        yield f"NOT RESTORED: {', '.join(said['lacking'])}"
    if said.get("blobs_missing"):
        yield f"MISSING: {count_text(len(said['blobs_missing']), 'blob')} that events name"
    yield f"recorded as event {said['recorded_seq']}; warpboard up folds the read models anew"


def scrub_lines(said: Answer) -> Iterator[str]:
    """How the log compares with its archive.

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
    log, archive = said["log_last_seq"], said["archive_last_seq"]
    yield f"log: {count_text(log, 'event')}, archive: {count_text(archive, 'event')}"
    for part, what in (
        ("missing", "MISSING from the log"),
        ("lost", "LOST from log and archive"),
        ("differing", "DIFFERENT in log and archive"),
        ("unarchived", "not archived yet"),
    ):
        if said[part]["count"]:
            yield f"{what}: {count_text(said[part]['count'], 'event')}: {_ranges(said[part])}"
    for finding in said["archive_findings"][:FINDINGS_MAX]:
        yield f"ARCHIVE NOT CLEAN from event {finding['seq']} on: {one_line(finding['what'])}"
    if said["is_clean"]:
        yield "clean: the log has every event, and the archive has the same ones"
    else:
        yield "NOT CLEAN: see docs/operating/log-damaged.md"


def _ranges(found: Answer) -> str:
    """The first ranges of some sequences."""
    ranges = found["ranges"]
    named = [str(one[0]) if one[0] == one[1] else f"{one[0]} to {one[1]}" for one in ranges]
    more = ", and more" if len(named) > FINDINGS_MAX else ""
    return ", ".join(named[:FINDINGS_MAX]) + more


def repair_lines(said: Answer) -> Iterator[str]:
    """What was put back."""
    yield from (line for line in scrub_lines(said) if not line.startswith("NOT CLEAN"))
    if not said["is_repaired"]:
        return
    yield f"repaired: {count_text(said['events'], 'event')}, chain {said['chain']}"
    yield f"recorded as event {said['recorded_seq']}; all of it is in {said['file']} too"


def collection_lines(said: Answer) -> Iterator[str]:
    """What a collection of blobs removed, or would."""
    done = "would be removed" if said["is_trial"] else "removed"
    weight = f"{said['removed_bytes']:,} bytes"
    yield f"{count_text(said['removed'], 'blob')} that no event names {done} ({weight})"
    yield f"of {count_text(said['blobs'], 'blob')}, {said['blobs_old']} older than two days"
    if said["is_trial"] and said["removed"]:
        yield "to remove them: warpboard gc --apply --reason TEXT"
