"""What is made once under a name, whatever is killed in between."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from discord_edge.service.public import Begun, Ledger, Recall


def mark(name: str) -> str:
    """The nonce of what is said under a name."""
    return hashlib.sha256(name.encode()).hexdigest()[:24]


async def once(ledger: Ledger, name: str, make: Callable[[], Awaitable[str]]) -> str:
    """The id of what is under a name, made now if it is not there. Errors: Refused; Failed."""
    held = await ledger.made(name)
    if held is None:
        held = await make()
        await ledger.keep(name, held)
    return held


@dataclass(frozen=True)
class Saying:
    """Says each thing once, though Discord forgets a nonce within minutes and answers get lost."""

    ledger: Ledger
    recall: Recall

    async def say(
        self, name: str, room: str, text: str, send: Callable[[str], Awaitable[str]]
    ) -> str:
        """The id of what is said in a room under a name: said now, or found there.

        A second try says what the first one did, by which it is found. Errors: Refused; Failed.
        """
        begun = await self.ledger.begun(name, room)
        if begun is None:
            begun = Begun(text, await self.recall.newest(room))
            await self.ledger.begin(name, room, begun)
        elif (found := await self.recall.said(room, begun)) is not None:
            return found
        return await send(begun.text)
