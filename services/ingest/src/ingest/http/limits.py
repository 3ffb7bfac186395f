"""How often somebody may ask, and the name of each answer."""

import re
import time
from dataclasses import dataclass

from fastapi import Request
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.http.who import Gate
from shared.clock import new_id
from shared.errors import Refused
from shared.http import refusal

FREE = ("/health", "/healthz", "/readyz")
POLL = re.compile(r"/+(?:v1|user)/+submissions/+0*([0-9]{1,16})/*\Z")
# A client that polls once in 2 s is never told to wait, whatever else it does; and so for as many
# submissions as one may follow at once, not for as many as there are numbers.
POLLS = "60/minute"
ALL_POLLS = "1920/minute"
REQUEST_ID = "x-request-id"


@dataclass(frozen=True)
class Rates:
    """How often a token and an address may ask: `600/minute`, or "" for as often as they like."""

    per_token: str = ""
    per_address: str = ""


class RateLimits:
    """Refuses who asks too often; each token has its own rate, who has none shares an address's.

    Counted here alone: with several ingests behind one name each gives the whole rate.
    """

    def __init__(self, app: ASGIApp, gate: Gate, rates: Rates) -> None:
        self.app = app
        self._gate = gate
        self._rules = {
            "token": parse(rates.per_token) if rates.per_token else None,
            "address": parse(rates.per_address) if rates.per_address else None,
        }
        self._polls, self._all_polls = parse(POLLS), parse(ALL_POLLS)
        self._window = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; Source: the ASGI specification."""
        if scope["type"] == "http" and scope["path"] not in FREE:
            refused = self._over(Request(scope))
            if refused is not None:
                await refused(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _over(self, request: Request) -> ASGIApp | None:
        payer = self._gate.payer(request)
        rule = None if payer is None else self._rules[payer.partition(" ")[0]]
        if payer is None or rule is None:
            return None
        if self._window.hit(rule, payer) or self._is_poll(request, payer):
            return None
        wait_s = self._window.get_window_stats(rule, payer).reset_time - time.time()
        headers = {
            "RateLimit-Limit": str(rule.amount),
            "RateLimit-Remaining": "0",
            "RateLimit-Reset": str(max(1, round(wait_s))),
        }
        what = f"too many requests: at most {rule}; ask again in {max(1, round(wait_s))} s"
        return refusal(Refused("rate_limited", what, retry_after_s=max(1.0, wait_s)), headers)

    def _is_poll(self, request: Request, payer: str) -> bool:
        """Whether a request is a poll that is let through beyond the rule."""
        found = POLL.match(request.url.path) if request.method == "GET" else None
        if found is None or not self._window.test(self._all_polls, f"{payer} polls"):
            return False
        if not self._window.hit(self._polls, f"{payer} {int(found[1])}"):
            return False
        return self._window.hit(self._all_polls, f"{payer} polls")


class RequestIds:
    """Gives every answer a name by which it can be asked about, if it has none yet."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; Source: the ASGI specification."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault(REQUEST_ID, new_id())
            await send(message)

        await self.app(scope, receive, named)
