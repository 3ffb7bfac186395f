"""Sends events out: deliveries to participants' webhooks, announcements to the operator's URL.

Deliveries are signed requests, sent in parallel, and failures are retried with backoff. Records,
podium changes and seals are announced one after the other, once each through the outbox.
"""

import asyncio
import hashlib
import hmac
import itertools
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import httpx
import msgspec

from ranker.domain.stored_log import SEAL_AGGREGATE
from ranker.metrics import DELIVERED, DROPPED, FAILED, RETRIED
from ranker.webhooks.postgres import (
    OF_ACCOUNT_MAX,
    TEST,
    Delivery,
    DeliveryOutcome,
    WebhookStore,
)
from ranker.webhooks.subscriptions import Subscriptions
from shared.addresses import RequestTarget, is_loopback, is_own, is_public, parse_target
from shared.bus import DurableConsumers
from shared.clock import now
from shared.errors import Failed, Refused
from shared.event_log import RecordedEvent
from shared.outbox import OutboxSender
from shared.postgres import PostgresOutbox, create_pool

log = logging.getLogger(__name__)

# Waits between the eight tries of an event, a day in all.
WAITS_S = (60.0, 300.0, 900.0, 3_600.0, 10_800.0, 25_200.0, 45_540.0)
IN_FLIGHT_MAX = 100
# A try takes 10 s at most; one without a recorded outcome after this is lost.
LEASE_S = 30.0
# For deliveries that another process stored: tests of webhooks, and tries from before a restart.
POLL_S = 1.0
CLEAN_UP_S = 60.0
FORGET_EVERY_N = 60
FIRST = asyncio.FIRST_COMPLETED

POST_S_MAX = 10.0
ANNOUNCE_CONSUMER = "ranker-announce"
ANNOUNCED_AGGREGATES = ("ranking.>", SEAL_AGGREGATE)
ANNOUNCE_TARGET = "webhook"
OUTBOX_SCHEMA = "accounts"
OUTBOX_POOL_MAX = 2
# The receiver asks for another try: too slow, too early, too many requests.
RETRY_STATUSES = frozenset({408, 425, 429})


class SenderMetrics(Protocol):
    """Counters of the sender."""

    def tried(self, outcome: str) -> None:
        """Count a try."""

    def switched_off(self) -> None:
        """Count a webhook that was switched off."""

    def pending(self, deliveries: int) -> None:
        """Set the number of pending deliveries."""


@dataclass
class WebhookSender:
    """Sends deliveries with `post`; a slow one does not delay the others."""

    store: WebhookStore
    subscriptions: Subscriptions
    post: Callable[[Delivery], Awaitable[DeliveryOutcome]]
    metrics: SenderMetrics
    waits_s: Sequence[float] = WAITS_S
    lease_s: float = LEASE_S
    clock: Callable[[], datetime] = now
    _tasks: dict["asyncio.Task[None]", Delivery] = field(default_factory=dict)

    async def run(self) -> None:
        """Send for ever. Raises Failed; deliveries in flight are then tried again later."""
        cleaning = asyncio.create_task(self._clean_up())
        waking = asyncio.create_task(self.store.wait_until_due())
        try:
            while True:
                await self._start_due()
                waits = {*self._tasks, cleaning, waking}
                await asyncio.wait(waits, timeout=POLL_S, return_when=FIRST)
                if waking.done():
                    waking = asyncio.create_task(self.store.wait_until_due())
                for task in [task for task in self._tasks if task.done()]:
                    del self._tasks[task]
                    task.result()
                if cleaning.done():
                    cleaning.result()
        finally:
            tasks = [cleaning, waking, *self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _start_due(self) -> None:
        room = IN_FLIGHT_MAX - len(self._tasks)
        if room <= 0:
            return
        accounts = Counter(delivery.account for delivery in self._tasks.values())
        full = [account for account, count in accounts.items() if count >= OF_ACCOUNT_MAX]
        busy = [delivery.webhook for delivery in self._tasks.values()]
        seq = self.subscriptions.seq
        for delivery in await self.store.claim(busy, full, seq, room, self.lease_s):
            self._tasks[asyncio.create_task(self._deliver(delivery))] = delivery

    async def _deliver(self, delivery: Delivery) -> None:
        if reason := self._find_obstacle(delivery):
            await self.store.record_drop(delivery, reason)
            self.metrics.tried(DROPPED)
            return
        outcome = await self.post(delivery)
        if outcome.error is None:
            await self.store.record_success(delivery, outcome)
            self.metrics.tried(DELIVERED)
        else:
            await self._record_failure(delivery, outcome)

    def _find_obstacle(self, delivery: Delivery) -> str | None:
        """Why a delivery is not sent after all: things may have changed since it was stored."""
        at = self.clock()
        if delivery.webhook not in self.subscriptions.hooks:
            return "the webhook was removed"
        if self.subscriptions.is_banned(delivery.account, at):
            return "its owner is banned"
        if not self.subscriptions.may_receive(delivery.account, delivery.problem, at):
            return "its owner can no longer see the leaderboard"
        if delivery.is_off and delivery.kind != TEST:
            return "the webhook was switched off"
        return None

    async def _record_failure(self, delivery: Delivery, outcome: DeliveryOutcome) -> None:
        if delivery.kind == TEST:
            await self.store.record_failure(delivery, outcome, None)
            self.metrics.tried(FAILED)
        elif delivery.tries <= len(self.waits_s):
            await self.store.schedule_retry(delivery, outcome, self.waits_s[delivery.tries - 1])
            self.metrics.tried(RETRIED)
        else:
            summary = (
                f"{delivery.kind} {delivery.event} was tried {delivery.tries} times; "
                f"last error: {outcome.error}"
            )
            notice = f"{summary}; a successful test switches the webhook on again"
            await self.store.record_failure(delivery, outcome, notice)
            self.metrics.tried(FAILED)
            self.metrics.switched_off()
            log.info("webhook %s is switched off", delivery.webhook)

    async def _clean_up(self) -> None:
        """Count pending deliveries every minute, and delete old ones every hour."""
        for minute in itertools.count():
            if minute % FORGET_EVERY_N == 0:
                await self.store.delete_old()
            self.metrics.pending(await self.store.count_pending())
            await asyncio.sleep(CLEAN_UP_S)


ADDRESSES_MAX = 3
# A name server that hangs blocks a thread for longer than we wait.
RESOLVERS = 32
ERROR_LENGTH_MAX = 200
AGENT = "Warpboard-Webhook/1"


class UnsafeAddress(Exception):  # noqa: N818
    """The URL leads to an address to which nothing is sent."""


def sign_body(secret: str, timestamp: str, body: bytes) -> str:
    """The value of the header Warpboard-Signature.

    >>> sign_body("wbhook_example", "1767225600", b"{}")[:14]
    'v1=989cdbe0fc3'
    """
    signed = timestamp.encode() + b"." + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def encode_body(delivery: Delivery) -> bytes:
    """The request body, the same at each try: {id, type, at, data}."""
    fields = {"id": delivery.event, "type": delivery.kind, "at": delivery.at}
    return msgspec.json.encode(fields | {"data": msgspec.Raw(delivery.data.encode())})


@dataclass(frozen=True)
class WebhookClient:
    """Sends deliveries; with `is_local` also to loopback, for tests and single-user machines.

    Each request has its own client: no cookies, connections or proxies are shared.
    """

    is_local: bool = False
    within_s: float = POST_S_MAX
    tls: ssl.SSLContext = field(default_factory=httpx.create_ssl_context)
    resolvers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(RESOLVERS))

    async def send(self, delivery: Delivery) -> DeliveryOutcome:
        """Send one delivery within 10 s and return the outcome."""
        started_at = time.monotonic()
        status, error = None, None
        try:
            async with asyncio.timeout(self.within_s):
                status = await self._post_to_any(delivery)
            error = _find_error(status)
        except TimeoutError:
            error = f"no response within {self.within_s:g} s"
        except Refused as refused:
            error = refused.reason
        except UnsafeAddress as unsafe:
            error = str(unsafe)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as failure:
            error = f"no answer: {str(failure) or type(failure).__name__}"
        took_ms = round(1000 * (time.monotonic() - started_at))
        return DeliveryOutcome(status, error and error[:ERROR_LENGTH_MAX], took_ms)

    async def _post_to_any(self, delivery: Delivery) -> int:
        """The status from the first address that accepts a connection.

        Raises Refused, Unsafe or HTTPError.
        """
        destination = parse_target(delivery.url, is_local=self.is_local)
        *others, last = (await self._addresses(destination))[:ADDRESSES_MAX]
        for address in others:
            try:
                return await self._post_to(destination, address, delivery)
            except httpx.ConnectError:
                continue
        return await self._post_to(destination, last, delivery)

    async def _addresses(self, destination: RequestTarget) -> list[str]:
        """The checked addresses of a host.

        Raises Unsafe if any is not public or is this machine's own, whose ports a firewall may hide
        from others only.
        """
        loop = asyncio.get_running_loop()
        query = (destination.host, destination.port, 0, socket.SOCK_STREAM)
        try:
            records = await loop.run_in_executor(self.resolvers, socket.getaddrinfo, *query)
        except (OSError, UnicodeError) as error:
            raise UnsafeAddress(f"the host {destination.host} cannot be resolved") from error
        addresses = list(dict.fromkeys(str(record[4][0]) for record in records))
        if not addresses or not all(map(self._is_safe, addresses)):
            # Naming the address would reveal our own network.
            raise UnsafeAddress(
                f"the host {destination.host} has an address that is not on the public internet"
            )
        return addresses

    def _is_safe(self, address: str) -> bool:
        if is_loopback(address):
            return self.is_local
        return is_public(address) and not is_own(address)

    async def _post_to(self, destination: RequestTarget, address: str, delivery: Delivery) -> int:
        """The status of the response; nothing else of it is read."""
        host = f"[{address}]" if ":" in address else address
        url = f"{destination.scheme}://{host}:{destination.port}{destination.path}"
        # The name is not resolved again, but the certificate must still match it.
        extensions = {"sni_hostname": destination.host}
        async with (
            httpx.AsyncClient(verify=self.tls, trust_env=False, timeout=self.within_s) as client,
            client.stream(
                "POST",
                url,
                content=encode_body(delivery),
                headers=_headers(destination, delivery),
                extensions=extensions,
                follow_redirects=False,
            ) as response,
        ):
            return response.status_code


def _headers(destination: RequestTarget, delivery: Delivery) -> dict[str, str]:
    timestamp = str(int(time.time()))
    return {
        "Host": destination.authority,
        "User-Agent": AGENT,
        "Accept": "*/*",
        "Content-Type": "application/json",
        "Warpboard-Event-Id": delivery.event,
        "Warpboard-Timestamp": timestamp,
        "Warpboard-Signature": sign_body(delivery.secret, timestamp, encode_body(delivery)),
    }


def _find_error(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    reason = ": redirects are not followed" if 300 <= status < 400 else ""
    return f"it answered {status}{reason}"


class OperatorWebhook:
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
        await bus.forget(ANNOUNCE_CONSUMER)
        await asyncio.Event().wait()
        return
    inbox = await bus.news(ANNOUNCE_CONSUMER, *ANNOUNCED_AGGREGATES)
    try:
        async with (
            create_pool(dsn, 1, OUTBOX_POOL_MAX, OUTBOX_SCHEMA) as connections,
            httpx.AsyncClient(timeout=POST_S_MAX) as client,
        ):
            outbox, webhook = PostgresOutbox(connections), OperatorWebhook(client, url)
            await OutboxSender(inbox, outbox, ANNOUNCE_TARGET, webhook.post).run()
    finally:
        await inbox.close()
