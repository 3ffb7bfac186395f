"""Counts what the bot meets: its connection, who asks, and what Discord answers."""

import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import aiohttp
import discord

from discord_edge.bot.asking import Edge, Here
from discord_edge.metrics import BROKEN, FAILED, LATE, NEW, REFUSED, RESUMED, EdgeMetrics
from shared.errors import Failed, Refused

CALLBACK = re.compile(r"/interactions/(\d+)/[^/]+/callback$")
# More than can be open at once: each is over after three seconds.
OPEN_MAX = 1000
MENU = discord.ComponentType.select
KINDS = {
    discord.InteractionType.autocomplete: "autocomplete",
    discord.InteractionType.modal_submit: "modal",
}


def name_of(here: Here) -> str:
    """What an interaction is called: a command by its name, anything else by its kind."""
    if here.type is discord.InteractionType.component:
        data: Mapping[str, Any] = here.data or {}
        return "menu" if data.get("component_type") == MENU.value else "button"
    if here.type in KINDS:
        return KINDS[here.type]
    return here.command.qualified_name if here.command else "unknown"


class Watching:
    """Listens to one bot; it changes nothing of what that does."""

    def __init__(self, bot: Edge, metrics: EdgeMetrics) -> None:
        self._metrics = metrics
        self._open: OrderedDict[int, tuple[str, float]] = OrderedDict()
        metrics.follow(lambda: len(bot.following.tasks))
        for listener in (
            self.on_ready,
            self.on_resumed,
            self.on_disconnect,
            self.on_interaction,
            self.on_interaction_failed,
        ):
            bot.add_listener(listener)
        bot.http.http_trace = self._trace()

    async def on_ready(self) -> None:
        """A new session."""
        self._metrics.connected(NEW)

    async def on_resumed(self) -> None:
        """The session of before."""
        self._metrics.connected(RESUMED)

    async def on_disconnect(self) -> None:
        """None."""
        self._metrics.disconnected()

    async def on_interaction(self, here: Here) -> None:
        """Somebody asks, and Discord waits three seconds for a first answer."""
        name = name_of(here)
        self._metrics.asked(name)
        self._open[here.id] = name, time.monotonic()
        if len(self._open) > OPEN_MAX:
            self._open.popitem(last=False)

    async def on_interaction_failed(self, here: Here, error: BaseException) -> None:
        """It came to nothing; the bot says so by itself."""
        outcome = REFUSED if isinstance(error, Refused | discord.app_commands.CheckFailure) else ""
        outcome = outcome or (FAILED if isinstance(error, Failed) else BROKEN)
        self._metrics.failed(name_of(here), outcome)

    def _trace(self) -> aiohttp.TraceConfig:
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(self._answered)
        trace.on_request_exception.append(self._unanswered)
        return trace

    async def _answered(
        self, _: aiohttp.ClientSession, __: SimpleNamespace, ended: aiohttp.TraceRequestEndParams
    ) -> None:
        self._metrics.answered(ended.response.status)
        callback = CALLBACK.search(ended.url.path)
        if callback is None:
            return
        name, began = self._open.pop(int(callback[1]), ("", 0.0))
        if name and ended.response.status < 300:
            self._metrics.acknowledged(time.monotonic() - began)
        elif name and ended.response.status == 404:
            self._metrics.failed(name, LATE)

    async def _unanswered(self, *_: Any) -> None:
        self._metrics.answered(None)
