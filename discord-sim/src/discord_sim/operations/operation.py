"""The type of an operation of the API, with its path and handler."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from discord_sim.cdn import FileUpload
from discord_sim.state import SimulatorState

Answer = tuple[int, Any]


@dataclass(frozen=True)
class Request:
    """A parsed and validated request."""

    path: dict[str, str]
    query: dict[str, str]
    body: Any = None
    files: dict[int, FileUpload] = field(default_factory=dict)


Handler = Callable[[SimulatorState, Request], Awaitable[Answer]]


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
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.template)
        return re.compile(pattern)


def operation(
    method: str, template: str, *, is_open: bool = False
) -> Callable[[Handler], Operation]:
    """Make an operation of a function that has the operation's name."""

    def make(handle: Handler) -> Operation:
        name = getattr(handle, "__name__", "")
        return Operation(name, method, template, handle, is_open)

    return make
