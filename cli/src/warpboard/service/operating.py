"""Running the platform on this machine, and seeing how it goes."""

import asyncio
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpboard.domain import tables
from warpboard.domain.answers import Agents, read
from warpboard.domain.demand import Demand, demanded, worth
from warpboard.domain.doctor import Offer, exit_code, lines
from warpboard.domain.outcome import INTERRUPTED, OK
from warpboard.domain.platform import begin, facts, pid_text
from warpboard.domain.progress import News
from warpboard.service.aside import Aside
from warpboard.service.machine import Machine, Platform, Row
from warpboard.service.ports import Api, Connect, Harness, Screen, Unavailable

TOKEN = "operator_token"  # noqa: S105  (a file's name)
SIM = "discord-sim"
AGENT_S_MAX = 15.0
STEP_S = 0.25


@dataclass(frozen=True)
class Wanted:
    """The folder of a platform, what it is to demand of ranked times, and whether a simulated
    Discord is to be there."""

    folder: Path
    demand: Demand
    has_discord: bool = False


async def up(
    machine: Machine, connect: Connect, screen: Screen, wanted: Wanted, *, as_json: bool
) -> int:
    """Run the platform until a signal; the exit code. Errors: Refused; Failed."""
    folder, told = wanted.folder, Aside(screen) if as_json else screen
    starting = ExitStack()

    async def work(platform: Platform) -> None:
        starting.close()
        await announce(connect, told, platform, wanted.demand)
        for line in (*begin(platform.url), *chat(platform.rows)):
            told.say(line)
        told.say(f"operators show the token in {folder / TOKEN}; warpboard admin finds it there")
        told.say("Ctrl-C stops it")
        if as_json:
            rows = [plain(row) for row in platform.rows]
            screen.json({"url": platform.url, "folder": str(folder), "processes": rows})
        await asyncio.Event().wait()

    with starting:
        starting.enter_context(begun(screen, "starting"))
        number = await machine.supervise(
            folder, wanted.demand, work, has_discord=wanted.has_discord
        )
    screen.note("warpboard: stopped")
    return INTERRUPTED if number == signal.SIGINT else OK


@contextmanager
def begun(screen: Screen, what: str) -> Iterator[None]:
    """Show that something of the platform goes on."""
    with screen.live(["platform"]) as live:
        live.show("platform", News(what))
        yield


def doctor(harness: Harness, screen: Screen, *, as_json: bool) -> int:
    """What this machine can give; 0 if that is strong, else 1."""
    answer = harness.offer()
    found = read(answer, Offer)
    if as_json:
        screen.json(answer)
    else:
        for line in lines(found):
            screen.say(line)
    return exit_code(found)


def demand(harness: Harness, level_min: str | None) -> Demand:
    """What a platform here is to demand of ranked times."""
    return demanded(read(harness.offer(), Offer), level_min)


async def announce(connect: Connect, screen: Screen, platform: Platform, wanted: Demand) -> None:
    """Say what runs where, and what to know before submitting."""
    with begun(screen, "waiting for an agent"):
        async with connect(platform.url) as api:
            agents = await _agents(api)
    screen.table(processes(platform.rows))
    screen.say(f"Warpboard is up: {platform.url}")
    for fact in facts(agents.items):
        screen.say(fact)
    screen.say(worth(wanted))


async def _agents(api: Api) -> Agents:
    """The agents, once one is alive or the wait is over."""
    until = time.monotonic() + AGENT_S_MAX
    found = Agents(items=[])
    while time.monotonic() < until:
        try:
            found = read(await api.get("agents"), Agents)
        except Unavailable:
            found = Agents(items=[])
        if any(agent.is_alive for agent in found.items):
            break
        await asyncio.sleep(STEP_S)
    return found


def processes(rows: Sequence[Row]) -> tables.Table:
    """The processes of a platform."""
    cells = [
        (row.name, row.state, pid_text(row.pid), str(row.restarts), row.address) for row in rows
    ]
    return tables.Table("processes", ("process", "state", "pid", "restarts", "address"), cells)


def chat(rows: Sequence[Row]) -> Iterator[str]:
    """Where the simulated Discord is, if there is one."""
    for row in rows:
        if row.name == SIM:
            yield f"a Discord of this machine's own, with the bot, in a browser: {row.address}"


def plain(row: Row) -> dict[str, Any]:
    """A process for a program."""
    return {
        "name": row.name,
        "state": row.state,
        "pid": row.pid,
        "restarts": row.restarts,
        "address": row.address,
    }


def down(machine: Machine, screen: Screen, folder: Path, *, as_json: bool) -> int:
    """Stop a folder's platform. Errors: Failed."""
    with begun(screen, "stopping"):
        was_up = machine.down(folder)
    if as_json:
        screen.json({"folder": str(folder), "was_up": was_up})
    else:
        screen.say("stopped" if was_up else f"nothing runs in {folder}")
    return OK
