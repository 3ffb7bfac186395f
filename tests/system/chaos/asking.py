"""Requests with patience: what does not answer is asked again, what answers wrongly is kept."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle

import httpx

ASK_S_MAX = 8.0
# Of two ingests one may be dead at any time: a client, or the proxy before it, asks the other. The
# servers behind both are struck, too, one after the other.
PATIENCE_S = 120.0
# A client that asks five times a second for as long as a server is away helps to keep it away.
PAUSE_S, PAUSE_S_MAX = 0.2, 3.2
# What an unhealthy platform may say; whatever else is 5xx is a bug.
PASSING = (502, 503, 504)


@dataclass
class Asked:
    """Everything that was answered, and what should never have been."""

    answers: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    retries: int = 0
    waited_s_max: float = 0.0


@dataclass
class Asker:
    """One who asks, over one client, again and again, each of the addresses in turn."""

    http: httpx.AsyncClient
    asked: Asked
    urls: Sequence[str] = ()

    async def ask(self, what: str, request: httpx.Request) -> httpx.Response | None:
        """The good answer to a request; None if it was refused, or none came in two minutes.

        It goes first to its own address.
        """
        began, pause_s = time.monotonic(), PAUSE_S
        body = await request.aread()
        own = f"{request.url.scheme}://{request.url.netloc.decode()}"
        for url in cycle([own, *(url for url in self.urls if url != own)]):
            if time.monotonic() - began > PATIENCE_S:
                break
            answer = await self._once(request, request.url.copy_with(**_address(url)), body)
            if answer is not None:
                waited_s = time.monotonic() - began
                self.asked.waited_s_max = max(self.asked.waited_s_max, waited_s)
                return answer if self._is_good(what, answer) else None
            self.asked.retries += 1
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        self.asked.faults.append(f"{what}: no answer in {PATIENCE_S:.0f} s")
        return None

    async def _once(
        self, request: httpx.Request, url: httpx.URL, body: bytes
    ) -> httpx.Response | None:
        headers = {**request.headers, "host": url.netloc.decode()}
        copy = httpx.Request(request.method, url, content=body, headers=headers)
        try:
            answer = await self.http.send(copy)
        except httpx.TransportError as error:
            self.asked.answers[type(error).__name__] += 1
            return None
        self.asked.answers[str(answer.status_code)] += 1
        return None if answer.status_code in PASSING else answer

    def _is_good(self, what: str, answer: httpx.Response) -> bool:
        if answer.is_success:
            return True
        try:
            self.asked.refused[f"{what} {answer.json()['code']}"] += 1
            is_ours = answer.is_server_error
        except (ValueError, KeyError, TypeError):
            is_ours = True
        if is_ours:
            self.asked.faults.append(f"{what}: {answer.status_code} {answer.text[:200]}")
        return False


def _address(url: str) -> dict[str, object]:
    parsed = httpx.URL(url)
    return {"scheme": parsed.scheme, "host": parsed.host, "port": parsed.port}


def client(url: str) -> httpx.AsyncClient:
    """A client without endless patience of its own.

    A connection a request: a pool was seen to stay exhausted once hundreds had waited for it.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=url, timeout=ASK_S_MAX, limits=limits)
