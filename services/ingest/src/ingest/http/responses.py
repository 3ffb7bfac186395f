"""Responses: that to a decision, and headers that tell about limits and quotas."""

import math
from collections.abc import Sequence

from ingest.decisions import DecisionResult
from shared.api.queues import DecisionResponse
from shared.api.quotas import Balance
from shared.api.submissions import SubmissionReceipts
from shared.clock import now


def decision_response(result: DecisionResult) -> DecisionResponse:
    """Return the response for a decision; `event` is null if nothing had to change."""
    return DecisionResponse(event=result.event, seq=result.seq)


def rate_limit_headers(limit: int, remaining: int, reset_s: int) -> dict[str, str]:
    """Return the headers that tell a client what is left of a rate or quota."""
    return {
        "RateLimit-Limit": str(limit),
        "RateLimit-Remaining": str(remaining),
        "RateLimit-Reset": str(reset_s),
    }


def quota_headers(balances: Sequence[Balance]) -> dict[str, str]:
    """Return headers with the tightest quota; none if nothing is limited."""
    if not balances:
        return {}
    tightest = min(balances, key=lambda balance: balance.remaining)
    reset_s = max(0, math.ceil((tightest.reset_at - now()).total_seconds()))
    return rate_limit_headers(tightest.limit, tightest.remaining, reset_s)


def receipt_headers(receipts: SubmissionReceipts) -> dict[str, str]:
    """Return headers with the tightest quota, and whether this repeats an earlier response."""
    replay_headers = {"Idempotent-Replayed": "true"} if receipts.replayed else {}
    balances = [receipt.quota for receipt in receipts.submissions if receipt.quota]
    return replay_headers | quota_headers(balances)
