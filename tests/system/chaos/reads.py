"""What readers were shown, compared with the log."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from math import isclose
from typing import Any

from bench.noop_agent import verdict_of
from nats.aio.client import Client

from shared.events import SubmissionFinished
from shared.nats.bus import read_bus_status
from shared.subjects import last_token
from tests.support.waits import eventually
from tests.system.chaos.asking import Asker
from tests.system.chaos.crowd import AcceptedBatch, item_source
from tests.system.chaos.oracle import expected_entries
from tests.system.chaos.reading import Kept
from tests.system.chaos.town import NOOPS, WRONG_SHARE

# Of so many submissions the pages are read; they are spread over the whole log.
PAGES_MAX = 300
ROWS_MAX = 100
REDELIVERED_S_MAX = 25.0
LOOK_S = 0.5


async def wrong_pages(asker: Asker, log: Sequence[Kept]) -> list[str]:
    """Submissions whose page is not what the log says of their end."""
    numbers = {
        last_token(one.aggregate): one.seq for one in log if one.type == "SubmissionReceived"
    }
    ends = [one for one in log if one.type == "SubmissionFinished"]
    found = []
    for end in ends[:: len(ends) // PAGES_MAX + 1]:
        fact, number = end.recorded.fact, numbers[last_token(end.aggregate)]
        assert isinstance(fact, SubmissionFinished)
        answer = await asker.ask(
            "read", asker.http.build_request("GET", f"/v1/submissions/{number}")
        )
        shown = answer.json() if answer is not None else {}
        for name in ("outcome", "verdict", "code"):
            if shown.get(name) != getattr(fact, name):
                said = f"{name} {shown.get(name)}, the log says {getattr(fact, name)}"
                found.append(f"submission {number} is shown with {said}")
    return found


async def wrong_results(asker: Asker, accepted: Sequence[AcceptedBatch]) -> list[str]:
    """Evaluations without one result for each item, or with a verdict that its source is not."""
    found = []
    for one in accepted:
        path = f"/v1/evaluations/{one.id}/results?wait=false"
        answer = await asker.ask("read", asker.http.build_request("GET", path))
        lines = answer.text.splitlines() if answer is not None else []
        results = [json.loads(line) for line in lines if line]
        if sorted(int(result["id"]) for result in results) != sorted(one.batch.items):
            found.append(f"evaluation {one.id} of {len(one.batch.items)} items: {len(results)}")
        for result in results:
            deserved = verdict_of(_digest(int(result["id"])), WRONG_SHARE)
            if result["outcome"] == "completed" and result["verdict"] != deserved:
                said = f"{result['verdict']}, its source is {deserved}"
                found.append(f"evaluation {one.id}: item {result['id']} ended {said}")
    return found


def _digest(number: int) -> str:
    return hashlib.sha256(item_source(number).encode()).hexdigest()


async def wrong_boards(asker: Asker, log: Sequence[Kept]) -> list[str]:
    """Rows of the no-op leaderboards that are not what their submissions make of them."""
    found: list[str] = []
    for gpu in sorted({gpu for gpu, _ in NOOPS.values()}):
        path = f"/v1/leaderboards/identity/{gpu}?limit={ROWS_MAX}"
        answer = await asker.ask("read", asker.http.build_request("GET", path))
        rows = answer.json()["items"] if answer is not None else []
        found += _wrong_rows(gpu, rows, log)
    return found


def _wrong_rows(gpu: str, rows: list[dict[str, Any]], log: Sequence[Kept]) -> Iterator[str]:
    entries = expected_entries(log, gpu)
    shown = {row["participant_id"]: row for row in rows}
    for entry in entries:
        row = shown.pop(entry.account, None)
        if row is None:
            yield f"{gpu}: account {entry.account} is missing, with submission {entry.number}"
        elif row["number"] != entry.number or not isclose(row["score_us"], entry.score_us):
            yield f"{gpu}: submission {row['number']} is shown where {entry.number} is best"
    yield from (f"{gpu}: account {account} has no right to its row" for account in shown)
    for place, row in enumerate(rows, 1):
        if row["rank"] > place or (not row["is_tied"] and row["rank"] != place):
            yield f"{gpu}: row {place} has rank {row['rank']}"


async def unacknowledged(nc: Client, within_s: float) -> list[str]:
    """Durable consumers that still hold something although nothing is open.

    What a killed process had in hand is handed over again a while later, which is waited for.
    """
    found: list[str] = []

    async def is_free() -> bool:
        found[:] = await _held(nc)
        if found:
            await asyncio.sleep(LOOK_S)
        return not found

    with contextlib.suppress(AssertionError):
        await eventually(is_free, min(within_s, REDELIVERED_S_MAX))
    return found


async def _held(nc: Client) -> list[str]:
    readers = (await read_bus_status(nc)).readers
    return [
        f"consumer {one.name} holds {one.unacknowledged} unacknowledged and {one.pending} unread"
        for one in readers
        if one.unacknowledged or one.pending
    ]
