"""The state that the simulator's operations read and change, and the types of both."""

import asyncio
import re
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from discord_sim import shapes
from discord_sim.cdn import Cdn, FileUpload
from discord_sim.clock import Clock, Ids
from discord_sim.documents import Validators
from discord_sim.gateway import Gateway
from discord_sim.guild import Guild
from discord_sim.record import Record
from discord_sim.shapes import FILE_BYTES_MAX, ApiError, Faults, Json, RateLimits, unknown_object

ACKNOWLEDGE_S = 3.0
TOKEN_S = 15 * 60.0
COMMAND, COMPONENT, AUTOCOMPLETE, MODAL = 2, 3, 4, 5
# How long nonces are remembered; Discord documents "the past few minutes".
NONCE_S = 180.0


@dataclass
class Interaction:
    """A user's interaction and the bot's response.

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
        """Return the name of the command or the id of the component."""
        name: Any = self.data.get("name") or self.data.get("custom_id")
        return str(name)

    def answer(self, callback: int, now: float) -> None:
        """Store the acknowledgement."""
        self.callback, self.latency_s = callback, now - self.created_at
        self.answered.set()


class Interactions:
    """All interactions, by token."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock, self._ids = clock, ids
        self.by_token: dict[str, Interaction] = {}

    def begin(self, kind: int, user_id: str, channel_id: str, data: Json) -> Interaction:
        """Create an interaction whose time limits start now."""
        token, now = secrets.token_urlsafe(96), self._clock.now()
        interaction = Interaction(self._ids.next(), token, kind, user_id, channel_id, data, now)
        self.by_token[token] = interaction
        return interaction

    def to_answer(self, identity: str, token: str) -> Interaction:
        """Return an interaction to acknowledge. Raises `ApiError` 10062 and 40060."""
        interaction = self.by_token.get(token)
        if interaction is None or interaction.id != identity or interaction.is_failed:
            raise unknown_object("interaction", 10062)
        if interaction.callback is not None:
            raise ApiError(400, 40060, "Interaction has already been acknowledged.")
        return interaction

    def to_follow(self, token: str) -> Interaction:
        """Return an interaction to follow up on. Raises `ApiError` 10015 and 50027."""
        interaction = self.by_token.get(token)
        if interaction is None or interaction.is_failed or interaction.callback is None:
            raise unknown_object("Webhook", 10015)
        if self._clock.now() - interaction.created_at > TOKEN_S:
            raise ApiError(401, 50027, "Invalid Webhook Token")
        return interaction


Answer = tuple[int, Any]


@dataclass(frozen=True)
class Request:
    """A parsed and validated request."""

    path: dict[str, str]
    query: dict[str, str]
    body: Any = None
    files: dict[int, FileUpload] = field(default_factory=dict)


Handler = Callable[["SimulatorState", Request], Awaitable[Answer]]


@dataclass(frozen=True)
class Operation:
    """An operation of Discord's document; `is_open` ones need no bot token."""

    id: str
    method: str
    template: str
    handle: Handler
    is_open: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of its paths."""
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.template))


class Operations:
    """The operations of a module; one handler may serve several of them."""

    def __init__(self) -> None:
        self.all: list[Operation] = []

    def add(
        self, identity: str, method: str, template: str, *, is_open: bool = False
    ) -> Callable[[Handler], Handler]:
        """Return a decorator that adds an operation under Discord's own name."""

        def add(handle: Handler) -> Handler:
            self.all.append(Operation(identity, method, template, handle, is_open))
            return handle

        return add


class SimulatorState:
    """The state of one simulated Discord, in memory."""

    def __init__(self, token: str, validators: Validators, guild: str = "") -> None:
        self.token, self.validators = token, validators
        self.clock = Clock()
        self.ids = Ids(self.clock)
        self.record = Record()
        self.guild = Guild(self.clock, self.ids, guild)
        # The bots of applications created before 2016 have another id than the application.
        self.application_id = self.ids.next()
        self.cdn = Cdn(self.clock, self.ids)
        self.interactions = Interactions(self.clock, self.ids)
        self.limits, self.faults = RateLimits(), Faults()
        self.gateway = Gateway(token, self.guild, self.record, validators)
        self.messages: dict[str, dict[str, Json]] = defaultdict(dict)
        self.nonces: dict[str, tuple[float, Json]] = {}
        self.nonce_s = NONCE_S
        self.commands: dict[str | None, list[Json]] = {}
        self.emojis: dict[str, Json] = {}
        self.renames: dict[str, list[float]] = defaultdict(list)
        # Users who accept no direct messages.
        self.closed_doors: set[str] = set()
        self.files_max_bytes = FILE_BYTES_MAX
        # The time before a user reacts: discord.py knows a view only after the answer to the
        # request that sent it.
        self.reaction_s = 0.1
        self.deadlines: set[asyncio.Task[None]] = set()

    def add_emoji(self, name: str) -> Json:
        """Add an emoji of the application."""
        emoji = shapes.emoji(self.ids.next(), name, self.guild.bot)
        self.emojis[emoji["id"]] = emoji
        return emoji
