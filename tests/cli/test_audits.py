"""What an audit found, and what a replay, a copy and a collection did, in lines."""

from typing import Any

from shared.api.audits import AuditReport
from shared.api.fields import parse_response
from warpboard.terminal.maintenance import (
    collection_lines,
    export_lines,
    replay_line,
    replay_lines,
    report_lines,
)

SAID = {"is_equal": False, "seq": 9, "entries": 2, "submissions": 1}
REASON = {
    "seq": 5,
    "type": "SubmissionFinished",
    "at": "2026-01-02T03:04:05Z",
    "actor": "service:ranker",
    "sentence": "it may be ranked:\n12.340 us",
}
ROW = {
    "rank": 1,
    "is_tied": False,
    "account": "a1",
    "submission": "s1",
    "number": 12,
    "source": "ab",
    "pooled_over": [12],
    "score_us": 12.34,
    "error": None,
    "freedom": 0,
    "delta": 0.003,
    "received_at": "2026-01-02 03:04:00+00:00",
    "because": [REASON],
}
REPORT: dict[str, Any] = {
    "is_clean": True,
    "board": {"problem": "matmul", "number": 3, "gpu": "CPU"},
    "as_of": None,
    "seq": 90,
    "events": 91,
    "chain": "ab12",
    "seals": 2,
    "keys": [],
    "verified_runs": 4,
    "rows": [ROW],
    "findings": [],
    "ignored": [],
    "live_seq": 90,
    "differences": [],
}


def lines(change: dict[str, Any]) -> list[str]:
    return list(report_lines(parse_response(REPORT | change, AuditReport)))


def test_a_rebuild_tells_whether_it_is_equal() -> None:
    assert replay_line(SAID | {"is_equal": True}).startswith("rebuilt from event 1: equal ")
    assert replay_line(SAID) == (
        "rebuilt from event 1: NOT equal (up to event 9: 2 entries, 1 submission)"
    )


def test_each_difference_of_a_rebuild_has_a_line() -> None:
    difference = {"kind": "entry", "live": {"number": 1}, "rebuilt": None}
    assert list(replay_lines(SAID | {"differences": [difference], "is_switched": True}))[1:] == [
        "entry: live {'number': 1}, rebuilt None",
        "switched: readers see the rebuilt rows",
    ]


def test_a_clean_audit_explains_each_row_and_says_so_last() -> None:
    report = lines({"as_of": "2026-01-02 00:00:00+00:00"})
    assert report[0] == "matmul on CPU, version 3, as of 2026-01-02 00:00:00+00:00, event 90"
    assert "SubmissionFinished by service:ranker: it may be ranked: 12.340 us" in report[-2]
    assert report[-1].startswith("clean: ")


def test_an_audit_that_is_not_clean_names_the_first_event() -> None:
    findings = [{"seq": 7, "what": "the chain breaks"}]
    report = lines({"is_clean": False, "findings": findings, "differences": ["rank 1 differs"]})
    assert report[-2:] == [
        "NOT CLEAN from event 7 on: the chain breaks",
        "NOT EQUAL: rank 1 differs",
    ]


def test_a_copy_that_lacks_blobs_says_so() -> None:
    answer = {"events": 3, "file": "f", "chain": "ab", "blobs": 1, "blobs_missing": ["d1", "d2"]}
    assert list(export_lines(answer))[-1] == "MISSING: 2 blobs that events name"


def test_a_trial_says_how_blobs_are_removed() -> None:
    answer = {"is_trial": True, "removed": 1, "removed_bytes": 5000, "blobs": 3, "blobs_old": 2}
    assert list(collection_lines(answer)) == [
        "1 blob that no event names would be removed (5,000 bytes)",
        "of 3 blobs, 2 older than two days",
        "to remove them: warpboard server gc --apply --reason TEXT",
    ]
    assert next(collection_lines(answer | {"is_trial": False})).endswith("removed (5,000 bytes)")
