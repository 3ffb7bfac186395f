"""Answers of the platform, as small as the command line takes them."""

from typing import Any

from warpboard.domain.answers import Submission, read

RECEIVED_AT = "2026-01-02T03:04:05.678+00:00"
ANSWER: dict[str, Any] = {
    "number": 12,
    "participant": "ada",
    "problem": "matmul",
    "problem_number": 3,
    "gpu": "CPU",
    "mode": "ranked",
    "name": "kernel.py",
    "state": "received",
    "version": 12,
    "is_over": False,
    "received_at": RECEIVED_AT,
    "timeline": [{"seq": 12, "type": "SubmissionReceived", "at": RECEIVED_AT, "note": "ranked"}],
}
RANKED: dict[str, Any] = {
    "status": "ranked",
    "eligible": True,
    "code": "ranked",
    "reason": "passed every case",
    "rank": 1,
    "score_us": 12.34,
    "interval_us": [12.3, 12.41],
}
PASSED: dict[str, Any] = ANSWER | {
    "state": "finished",
    "version": 40,
    "is_over": True,
    "outcome": "passed",
    "verdict": "passed",
    "is_eligible": True,
    "score_us": 12.34,
    "took_s": 8.43,
    "ranking": RANKED,
}
WRONG: dict[str, Any] = PASSED | {
    "outcome": "failed",
    "verdict": "wrong_answer",
    "stage": "check",
    "reason": "a case failed",
    "is_eligible": False,
    "score_us": None,
    "cases": [
        {"name": "size=64", "stage": "check", "verdict": "passed"},
        {"name": "size=65", "stage": "check", "verdict": "wrong_answer", "message": "3 differ"},
    ],
    "log_tail": "hello\n",
    "ranking": {
        "status": "not_ranked",
        "eligible": False,
        "code": "check_failed",
        "reason": "a case failed",
    },
}


def submission(answer: dict[str, Any]) -> Submission:
    """An answer as the command line reads it."""
    return read(answer, Submission)
