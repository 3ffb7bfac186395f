"""One operation of the API: where it lies, and what answers it."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from discord_sim.cdn import Blob
from discord_sim.parts import Parts

Answer = tuple[int, Any]


@dataclass(frozen=True)
class Request:
    """What is asked, read and checked."""

    path: dict[str, str]
    query: dict[str, str]
    body: Any = None
    files: dict[int, Blob] = field(default_factory=dict)


Handler = Callable[[Parts, Request], Awaitable[Answer]]


@dataclass(frozen=True)
class Operation:
    """An operation, named as Discord's document names it; an open one needs no bot token."""

    id: str
    method: str
    template: str
    handle: Handler
    is_open: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What its paths look like."""
        named = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.template)
        return re.compile(named)


def operation(
    method: str, template: str, *, is_open: bool = False
) -> Callable[[Handler], Operation]:
    """Make an operation of a function that has Discord's name for it."""

    def make(handle: Handler) -> Operation:
        name = getattr(handle, "__name__", "")
        return Operation(name, method, template, handle, is_open)

    return make
