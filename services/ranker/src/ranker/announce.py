"""Tells an operator's URL of records, podiums and seals: an effect outside, so by the outbox."""

import asyncio

import httpx
import msgspec

from ranker.domain.seals import AGGREGATE
from shared.bus import Durables
from shared.errors import Failed, Refused
from shared.event_log import Recorded
from shared.outbox import Sender
from shared.postgres import PostgresOutbox, pool

CONSUMER = "ranker-announce"
AGGS = ("ranking.>", AGGREGATE)
TARGET = "webhook"
ACCOUNTS = "accounts"
POST_S_MAX = 10.0
POOL_MAX = 2
# The other side asks us to come again: too slow, too early, too often.
COME_AGAIN = frozenset({408, 425, 429})


class Webhook:
    """An operator's URL, which gets each event as JSON, under one key however often it is sent."""

    def __init__(self, client: httpx.AsyncClient, url: str, within_s: float = POST_S_MAX) -> None:
        self._client = client
        self._url = url
        self._within_s = within_s

    async def post(self, recorded: Recorded, nonce: str) -> None:
        """Post one event. Errors: Failed if it may go better later, Refused if it never will."""
        status = await self._status(_body(recorded), nonce)
        if status >= 500 or status in COME_AGAIN:
            raise Failed(f"the announce URL answered {status}")
        if not 200 <= status < 300:
            raise Refused("announce_refused", f"the announce URL answered {status}")

    async def _status(self, body: bytes, nonce: str) -> int:
        headers = {"Idempotency-Key": nonce, "Content-Type": "application/json"}
        try:
            # The client's own limits are of single reads: a drip of bytes would go on for ever.
            async with (
                asyncio.timeout(self._within_s),
                self._client.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                return answer.status_code
        except (TimeoutError, httpx.HTTPError) as error:
            why = str(error) or f"not in {self._within_s:g} s"
            raise Failed(f"the announce URL did not answer: {why}") from error


def _body(recorded: Recorded) -> bytes:
    """The event byte for byte, so that whoever keeps a seal can check its signature."""
    return msgspec.json.encode({"seq": recorded.seq, "event": msgspec.Raw(recorded.body)})


async def announce(url: str | None, dsn: str, bus: Durables) -> None:
    """Post what is said from now on, for ever; without a URL forget where posting had stopped.

    Errors: Failed if the log cannot be read.
    """
    if url is None:
        await bus.forget(CONSUMER)
        await asyncio.Event().wait()
        return
    inbox = await bus.news(CONSUMER, *AGGS)
    try:
        async with (
            pool(dsn, 1, POOL_MAX, ACCOUNTS) as connections,
            httpx.AsyncClient(timeout=POST_S_MAX) as client,
        ):
            outbox = PostgresOutbox(connections)
            await Sender(inbox, outbox, TARGET, Webhook(client, url).post).run()
    finally:
        await inbox.close()
