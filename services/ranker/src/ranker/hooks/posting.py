"""One signed request to a participant's URL: to a public address that was looked at."""

import asyncio
import hashlib
import hmac
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import msgspec

from ranker.hooks.postgres import Letter, Outcome
from shared.addresses import Target, is_loopback, is_public, target
from shared.errors import Refused

POST_S_MAX = 10.0
ADDRESSES_MAX = 3
# A name server that hangs keeps a thread for longer than we wait for it.
RESOLVERS = 32
ERROR_LENGTH_MAX = 200
AGENT = "Warpboard-Webhook/1"


class Unsafe(Exception):  # noqa: N818
    """A URL leads where nothing is sent."""


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What the header Warpboard-Signature says.

    >>> signature("wbhook_example", "1767225600", b"{}")[:14]
    'v1=989cdbe0fc3'
    """
    signed = timestamp.encode() + b"." + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def body_of(letter: Letter) -> bytes:
    """The same at each try: {id, type, at, data}."""
    said = {"id": letter.event, "type": letter.kind, "at": letter.at}
    return msgspec.json.encode(said | {"data": msgspec.Raw(letter.data.encode())})


@dataclass(frozen=True)
class Post:
    """Sends letters; with `is_local` also to this very machine, which is for tests and one's own.

    Each request has a client of its own: no cookie, no connection and no proxy is shared.
    """

    is_local: bool = False
    within_s: float = POST_S_MAX
    tls: ssl.SSLContext = field(default_factory=httpx.create_ssl_context)
    resolvers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(RESOLVERS))

    async def send(self, letter: Letter) -> Outcome:
        """Send one, within 10 s all in all; what came of it."""
        began = time.monotonic()
        status, error = None, None
        try:
            async with asyncio.timeout(self.within_s):
                status = await self._sent(letter)
            error = _complaint(status)
        except TimeoutError:
            error = f"no answer in {self.within_s:g} s"
        except Refused as refused:
            error = refused.reason
        except Unsafe as unsafe:
            error = str(unsafe)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as trouble:
            error = f"no answer: {str(trouble) or type(trouble).__name__}"
        took_ms = round(1000 * (time.monotonic() - began))
        return Outcome(status, error and error[:ERROR_LENGTH_MAX], took_ms)

    async def _sent(self, letter: Letter) -> int:
        """The status of the first address that lets us in. Errors: Refused; Unsafe; HTTPError."""
        where = target(letter.url, is_local=self.is_local)
        *others, last = (await self._addresses(where))[:ADDRESSES_MAX]
        for address in others:
            try:
                return await self._asked(where, address, letter)
            except httpx.ConnectError:
                continue
        return await self._asked(where, last, letter)

    async def _addresses(self, where: Target) -> list[str]:
        """What a host resolves to, each looked at. Errors: Unsafe if any is not public."""
        loop = asyncio.get_running_loop()
        ask = (where.host, where.port, 0, socket.SOCK_STREAM)
        try:
            found = await loop.run_in_executor(self.resolvers, socket.getaddrinfo, *ask)
        except (OSError, UnicodeError) as error:
            raise Unsafe(f"the host {where.host} cannot be found") from error
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        if not addresses or not all(self._is_safe(one) for one in addresses):
            # Which address it is would tell of our own network.
            raise Unsafe(f"the host {where.host} has an address that is not of the public internet")
        return addresses

    def _is_safe(self, address: str) -> bool:
        return is_public(address) or (self.is_local and is_loopback(address))

    async def _asked(self, where: Target, address: str, letter: Letter) -> int:
        """The status that an address answers; of the answer no more is read."""
        host = f"[{address}]" if ":" in address else address
        url = f"{where.scheme}://{host}:{where.port}{where.path}"
        # The name is not resolved again; the certificate must be the name's all the same.
        named = {"sni_hostname": where.host}
        async with (
            httpx.AsyncClient(verify=self.tls, trust_env=False, timeout=self.within_s) as client,
            client.stream(
                "POST",
                url,
                content=body_of(letter),
                headers=_headers(where, letter),
                extensions=named,
                follow_redirects=False,
            ) as answer,
        ):
            return answer.status_code


def _headers(where: Target, letter: Letter) -> dict[str, str]:
    timestamp = str(int(time.time()))
    return {
        "Host": where.authority,
        "User-Agent": AGENT,
        "Accept": "*/*",
        "Content-Type": "application/json",
        "Warpboard-Event-Id": letter.event,
        "Warpboard-Timestamp": timestamp,
        "Warpboard-Signature": signature(letter.secret, timestamp, body_of(letter)),
    }


def _complaint(status: int) -> str | None:
    """What is wrong with an answer, None if nothing is."""
    if 200 <= status < 300:
        return None
    why = ": redirects are not followed" if 300 <= status < 400 else ""
    return f"it answered {status}{why}"
