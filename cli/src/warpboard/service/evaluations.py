"""Evaluations by a platform: a batch of sources is sent, and its results are read as they come."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import msgspec

from shared.api.evaluations import Evaluation, EvaluationRequest, EvaluationResult
from shared.api_client import Unavailable
from shared.clock import new_id
from warpboard.api import Api
from warpboard.service.answers import retry_until_available

# How long the platform may be away, as during an upgrade.
SILENT_S_MAX = 300.0
PAUSE_S = 1.0
# Gets each evaluation that the platform accepted, before its results.
OnAccepted: TypeAlias = Callable[[Evaluation], None]


def batch_key(request: EvaluationRequest, run: str = "") -> str:
    """Return the idempotency key of a batch.

    A repeated call gets the evaluation of the first, unless it belongs to another `run`.
    """
    return hashlib.sha256(run.encode() + msgspec.json.encode(request)).hexdigest()


async def evaluate_batch(
    api: Api, request: EvaluationRequest, key: str, on_accepted: OnAccepted = lambda _: None
) -> AsyncIterator[EvaluationResult]:
    """Yield the results of a batch as they come, over lost connections and restarts.

    Raises Refused, Failed, and Unavailable if the platform is silent for too long.
    """
    answer = await retry_until_available(
        lambda: api.request_evaluation(request, key), SILENT_S_MAX, lambda _: None
    )
    on_accepted(answer.value)
    received, heard_at = 0, time.monotonic()
    while received < answer.value.items:
        try:
            async for result in api.evaluation_results(answer.value.id, received):
                received, heard_at = result.number, time.monotonic()
                yield result
        except Unavailable:
            if time.monotonic() - heard_at > SILENT_S_MAX:
                raise
        if received < answer.value.items:
            await asyncio.sleep(PAUSE_S)


async def evaluate_judged(
    api: Api, request: EvaluationRequest, key: str, on_accepted: OnAccepted = lambda _: None
) -> AsyncIterator[EvaluationResult]:
    """Yield one result for each item of a batch; one that failed was tried twice.

    An earlier call with the same key may have left the first try. Raises as `evaluate_batch`.
    """
    failed: set[str] = set()
    async for result in evaluate_batch(api, request, key, on_accepted):
        if result.outcome == "failed":
            failed.add(result.id)
        else:
            yield result
    if failed:
        items = [item for item in request.items if item.id in failed]
        again = msgspec.structs.replace(request, items=items)
        async for result in evaluate_batch(api, again, new_id(), on_accepted):
            yield result
