"""Interactions from the click to the end of their token: 3 seconds, then 15 minutes."""

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import Any

from discord_sim.clock import Clock, Ids
from discord_sim.errors import ApiError, unknown
from discord_sim.shapes import Json

ACKNOWLEDGE_S = 3.0
TOKEN_S = 15 * 60.0

COMMAND, COMPONENT, AUTOCOMPLETE, MODAL = 2, 3, 4, 5


@dataclass
class Interaction:
    """What somebody did, and what the bot made of it.

    `callback` is the type of the answer; `is_failed` means "The application did not respond".
    """

    id: str
    token: str
    kind: int
    user_id: str
    channel_id: str
    data: Json
    created_at: float
    message_id: str | None = None
    callback: int | None = None
    latency_s: float = 0.0
    is_failed: bool = False
    is_deferred: bool = False
    original_id: str | None = None
    modal: Json | None = None
    choices: list[Json] = field(default_factory=list)
    message_ids: list[str] = field(default_factory=list)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    def name(self) -> str:
        """For people: the command's name, or the component's id."""
        found: Any = self.data.get("name") or self.data.get("custom_id")
        return str(found)

    def answer(self, callback: int, now: float) -> None:
        """It was acknowledged."""
        self.callback, self.latency_s = callback, now - self.created_at
        self.answered.set()


class Interactions:
    """Those that were begun, by token."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        """None yet."""
        self._clock, self._ids = clock, ids
        self.by_token: dict[str, Interaction] = {}

    def begin(self, kind: int, user_id: str, channel_id: str, data: Json) -> Interaction:
        """A new one, whose clock runs."""
        token, now = secrets.token_urlsafe(96), self._clock.now()
        found = Interaction(self._ids.next(), token, kind, user_id, channel_id, data, now)
        self.by_token[token] = found
        return found

    def to_answer(self, identity: str, token: str) -> Interaction:
        """One that may still be acknowledged. Errors: ApiError 10062 and 40060."""
        found = self.by_token.get(token)
        if found is None or found.id != identity or found.is_failed:
            raise unknown("interaction", 10062)
        if found.callback is not None:
            raise ApiError(400, 40060, "Interaction has already been acknowledged.")
        return found

    def to_follow(self, token: str) -> Interaction:
        """One whose token is still good for messages. Errors: ApiError 10015 and 50027."""
        found = self.by_token.get(token)
        if found is None or found.is_failed or found.callback is None:
            raise unknown("Webhook", 10015)
        if self._clock.now() - found.created_at > TOKEN_S:
            raise ApiError(401, 50027, "Invalid Webhook Token")
        return found
