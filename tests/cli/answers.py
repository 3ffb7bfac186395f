"""Answers of the platform, as small as the command line takes them."""

from typing import Any

from shared.api.submissions import FullSubmission
from tests.support.api_examples import make_document, make_example

RECEIVED_AT = "2026-01-02T03:04:05.678+00:00"
_ANSWER: dict[str, Any] = {
    "number": 12,
    "participant": "ada",
    "problem": "matmul",
    "problem_version": 3,
    "gpu": "CPU",
    "mode": "ranked",
    "name": "kernel.py",
    "state": "queued",
    "version": 12,
    "is_over": False,
    "received_at": RECEIVED_AT,
    "timeline": [{"seq": 12, "type": "SubmissionReceived", "at": RECEIVED_AT, "note": "ranked"}],
}
RANKED: dict[str, Any] = {
    "status": "ranked",
    "is_eligible": True,
    "code": "ranked",
    "reason": "passed every case",
    "rank": 1,
    "score_us": 12.34,
    "interval_us": [12.3, 12.41],
}
_PASSED: dict[str, Any] = _ANSWER | {
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
_WRONG: dict[str, Any] = _PASSED | {
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
        "is_eligible": False,
        "code": "check_failed",
        "reason": "a case failed",
    },
}

# The whole answers.
ANSWER, PASSED, WRONG = (
    make_document(FullSubmission, fields) for fields in (_ANSWER, _PASSED, _WRONG)
)


def submission(answer: dict[str, Any]) -> FullSubmission:
    """An answer as the command line reads it."""
    return make_example(FullSubmission, **answer)
