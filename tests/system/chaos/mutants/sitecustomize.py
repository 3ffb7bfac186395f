"""Faults put into services on purpose, to show that chaos sees them.

Python runs this file at the start of each process that finds its folder on PYTHONPATH.
WARPBOARD_MUTANTS names the faults, separated by spaces.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from zlib import crc32


def _patch(owner: object, name: str, function: Callable[..., Any]) -> None:
    if not hasattr(owner, name):
        # Python only prints other errors of this file, and goes on without the fault.
        raise SystemExit(f"{owner} has no {name} any more: fix the mutant")
    setattr(owner, name, function)


def invert_verdicts() -> None:
    """The ranker takes each right answer for a wrong one, and the other way round."""
    from ranker.service import decisions

    conclude = vars(decisions)["conclude_submission"]

    def conclude_inverted(run: Any, wanted: Any) -> Any:
        verdict = "wrong_answer" if run.verdict == "passed" else "passed"
        return conclude(replace(run, verdict=verdict), wanted)

    _patch(decisions, "conclude_submission", conclude_inverted)


def expire_leases() -> None:
    """The scheduler takes every second lease back at once."""
    from scheduler.domain import rules
    from shared.events import JobExpired

    find = vars(rules)["_find_expiry"]

    def expire(state: Any, run: Any, job: Any, world: Any) -> Any:
        if crc32(run.id.encode()) % 2:
            return JobExpired(reason="a mutant", code="agent_silent")
        return find(state, run, job, world)

    _patch(rules, "_find_expiry", expire)


# The hashes stay those of the right bodies: the log still counts as whole, so it is written.
SPOIL = """
update event_archive
set body = convert_to(replace(convert_from(body, 'UTF8'), '"corr":"', '"corr":"spoilt '), 'UTF8')
where seq > %(after)s and seq %% 50 = 0
"""


def spoil_archive() -> None:
    """The archive stores a wrong body of each fiftieth event, with the hash of the right one."""
    from ranker.archive.postgres import Archive

    write = Archive.write

    async def write_spoilt(self: Any, after: int, events: Any) -> None:
        async with self.connection.transaction():
            await write(self, after, events)
            await self.connection.execute(SPOIL, {"after": after})

    _patch(Archive, "write", write_spoilt)


def keep_acks() -> None:
    """An agent never says that it is done with an order."""
    from shared.nats.inbox import NatsDelivery

    async def ack_nothing(_: object) -> None:
        return

    _patch(NatsDelivery, "ack", ack_nothing)


# By their name: the modules that are run with the fault, and what puts it there.
MUTANTS: dict[str, tuple[tuple[str, ...], Callable[[], None]]] = {
    "verdicts": (("ranker",), invert_verdicts),
    "leases": (("scheduler",), expire_leases),
    "archive": (("ranker",), spoil_archive),
    "acks": (("gpu_agent", "bench.noop_agent"), keep_acks),
}


def _mutate() -> None:
    if "-m" not in sys.orig_argv:
        return
    module = sys.orig_argv[sys.orig_argv.index("-m") + 1]
    for name in os.environ.get("WARPBOARD_MUTANTS", "").split():
        modules, mutate = MUTANTS[name]
        if module in modules:
            mutate()


_mutate()
