"""Every operation that the simulator has, by Discord's names."""

from types import ModuleType

from discord_sim.operations import (
    application,
    callbacks,
    channels,
    commands,
    members,
    messages,
    threads,
    webhooks,
)
from discord_sim.operations.operation import Operation

MODULES = (application, commands, members, channels, threads, messages, callbacks, webhooks)


def every_operation() -> list[Operation]:
    """All of them; a path without names in it comes before one with."""
    found = [one for module in MODULES for one in _of(module)]
    return sorted(found, key=lambda one: [part.startswith("{") for part in one.template.split("/")])


def _of(module: ModuleType) -> list[Operation]:
    return [one for one in vars(module).values() if isinstance(one, Operation)]
