"""Posts records, podium changes and seals to an operator's URL, once each through the outbox."""

import asyncio

import httpx
import msgspec

from ranker.domain.stored_log import SEAL_AGGREGATE
from shared.bus import DurableConsumers
from shared.errors import Failed, Refused
from shared.event_log import RecordedEvent
from shared.outbox import OutboxSender
from shared.postgres import PostgresOutbox, create_pool

CONSUMER = "ranker-announce"
AGGS = ("ranking.>", SEAL_AGGREGATE)
TARGET = "webhook"
ACCOUNTS = "accounts"
POST_S_MAX = 10.0
POOL_MAX = 2
# The receiver asks for another try: too slow, too early, too many requests.
RETRY_STATUSES = frozenset({408, 425, 429})


class Webhook:
    """An operator's URL; every try of an event is sent with the same idempotency key."""

    def __init__(self, client: httpx.AsyncClient, url: str, within_s: float = POST_S_MAX) -> None:
        self._client = client
        self._url = url
        self._within_s = within_s

    async def post(self, recorded: RecordedEvent, nonce: str) -> None:
        """Post one event. Raises Failed if a retry may succeed, Refused if it never will."""
        # The event byte for byte, so that the signature of a seal can be checked.
        body = msgspec.json.encode({"seq": recorded.seq, "event": msgspec.Raw(recorded.body)})
        status = await self._status(body, nonce)
        if status >= 500 or status in RETRY_STATUSES:
            raise Failed(f"the announce URL answered {status}")
        if not 200 <= status < 300:
            raise Refused("announce_refused", f"the announce URL answered {status}")

    async def _status(self, body: bytes, nonce: str) -> int:
        headers = {"Idempotency-Key": nonce, "Content-Type": "application/json"}
        try:
            # The client's own timeouts are per read: a slow drip of bytes would never end.
            async with (
                asyncio.timeout(self._within_s),
                self._client.stream("POST", self._url, content=body, headers=headers) as response,
            ):
                return response.status_code
        except (TimeoutError, httpx.HTTPError) as error:
            reason = str(error) or f"no response within {self._within_s:g} s"
            raise Failed(f"the announce URL did not answer: {reason}") from error


async def announce(url: str | None, dsn: str, bus: DurableConsumers) -> None:
    """Post new events for ever; without a URL, forget the consumer's position.

    Raises Failed if the log cannot be read.
    """
    if url is None:
        await bus.forget(CONSUMER)
        await asyncio.Event().wait()
        return
    inbox = await bus.news(CONSUMER, *AGGS)
    try:
        async with (
            create_pool(dsn, 1, POOL_MAX, ACCOUNTS) as connections,
            httpx.AsyncClient(timeout=POST_S_MAX) as client,
        ):
            outbox = PostgresOutbox(connections)
            await OutboxSender(inbox, outbox, TARGET, Webhook(client, url).post).run()
    finally:
        await inbox.close()
