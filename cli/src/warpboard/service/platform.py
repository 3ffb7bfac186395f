"""Run the platform on this machine, and show its state."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.api.agents import Agent, Agents
from shared.api.platform import DeadLetters
from shared.api.queues import IntakeStatus, Parked, Pool, Queues
from shared.errors import Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.responses import parse_response
from shared.presentation.units import NO_VALUE, count_text, one_line
from warpboard.domain.demand import (
    Demand,
    Offer,
    choose_demand,
    demand_line,
    missing_lines,
    offer_exit_code,
    offer_lines,
)
from warpboard.domain.exit_codes import INFRASTRUCTURE, INTERRUPTED, OK
from warpboard.domain.tables import Table
from warpboard.service.answers import JsonScreen
from warpboard.service.machine import Machine, Platform, Row
from warpboard.service.ports import Api, Connect, Harness, Response, Screen, Unavailable
from warpboard.service.queues import agent_table, held_back, pool_table, queue_table

TOKEN = "operator_token"  # noqa: S105  (a file's name)
SIM = "discord-sim"
AGENT_S_MAX = 15.0
STEP_S = 0.25
CPU = "CPU"


@dataclass(frozen=True)
class UpOptions:
    """The platform's folder, its demand on ranked times, and whether to simulate Discord."""

    folder: Path
    demand: Demand
    has_discord: bool = False


async def up(
    machine: Machine, connect: Connect, screen: Screen, options: UpOptions, *, as_json: bool
) -> int:
    """Run the platform until a signal; return the exit code. Raises Refused and Failed."""
    folder, output = options.folder, JsonScreen(screen) if as_json else screen
    starting = ExitStack()

    async def work(platform: Platform) -> None:
        starting.close()
        await announce(connect, output, platform, options.demand)
        for line in (*welcome_lines(platform.url), *discord_lines(platform.rows)):
            output.say(line)
        output.say(f"operators show the token in {folder / TOKEN}; warpboard admin finds it there")
        output.say("Ctrl-C stops it")
        if as_json:
            rows = [process_document(row) for row in platform.rows]
            screen.json({"url": platform.url, "folder": str(folder), "processes": rows})
        await asyncio.Event().wait()

    with starting:
        starting.enter_context(show_platform_progress(screen, "starting"))
        signal_received = await machine.supervise(
            folder, options.demand, work, has_discord=options.has_discord
        )
    screen.note("warpboard: stopped")
    return INTERRUPTED if signal_received == signal.SIGINT else OK


@contextmanager
def show_platform_progress(screen: Screen, step: str) -> Iterator[None]:
    """Show that a step of the platform is under way."""
    with screen.live(["platform"]) as live:
        live.show("platform", ProgressText(step))
        yield


def doctor(harness: Harness, screen: Screen, *, as_json: bool) -> int:
    """Show what this machine offers; return 0 if that is strong, else 1."""
    answer = harness.offer()
    offer = parse_response(answer, Offer)
    if as_json:
        screen.json(answer)
    else:
        for line in offer_lines(offer):
            screen.say(line)
    return offer_exit_code(offer)


def resolve_demand(harness: Harness, level_min: str | None) -> Demand:
    """Return what a platform here demands of ranked times."""
    return choose_demand(parse_response(harness.offer(), Offer), level_min)


async def announce(connect: Connect, screen: Screen, platform: Platform, demand: Demand) -> None:
    """Print what runs where, and what to know before submitting."""
    with show_platform_progress(screen, "waiting for an agent"):
        async with connect(platform.url) as api:
            agents = await _wait_for_agent(api)
    screen.table(process_table(platform.rows))
    screen.say(f"Warpboard is up: {platform.url}")
    for fact in agent_facts(agents):
        screen.say(fact)
    screen.say(demand_line(demand))


async def _wait_for_agent(api: Api) -> Sequence[Agent]:
    """Return the agents, once one is alive or the wait is over."""
    deadline = time.monotonic() + AGENT_S_MAX
    agents: Sequence[Agent] = ()
    while time.monotonic() < deadline:
        try:
            agents = (await api.get(Agents, "agents")).value.items
        except Unavailable:
            agents = ()
        if any(agent.is_alive for agent in agents):
            break
        await asyncio.sleep(STEP_S)
    return agents


def process_table(rows: Sequence[Row]) -> Table:
    """List the processes of a platform."""
    cells = [
        (row.name, row.state, pid_text(row.pid), str(row.restarts), row.address) for row in rows
    ]
    return Table("processes", ("process", "state", "pid", "restarts", "address"), cells)


def discord_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Tell where the simulated Discord is, if there is one."""
    for row in rows:
        if row.name == SIM:
            yield f"a Discord of this machine's own, with the bot, in a browser: {row.address}"


def process_document(row: Row) -> dict[str, Any]:
    """Return a process as a JSON document."""
    return {
        "name": row.name,
        "state": row.state,
        "pid": row.pid,
        "restarts": row.restarts,
        "address": row.address,
    }


def down(machine: Machine, screen: Screen, folder: Path, *, as_json: bool) -> int:
    """Stop a folder's platform. Raises Failed."""
    with show_platform_progress(screen, "stopping"):
        was_up = machine.down(folder)
    if as_json:
        screen.json({"folder": str(folder), "was_up": was_up})
    else:
        screen.say("stopped" if was_up else f"nothing runs in {folder}")
    return OK


@dataclass(frozen=True)
class Overview:
    """The platform's answers; None for what the caller may not see."""

    agents: Response[Agents]
    queue: Response[Queues]
    intake: Response[IntakeStatus]
    dead_letters: Response[DeadLetters] | None


async def status(
    connect: Callable[[], AbstractAsyncContextManager[Api]],
    screen: Screen,
    rows: Sequence[Row],
    *,
    as_json: bool,
) -> int:
    """Show local processes, agents and queues; return 3 if the platform does not answer."""
    if not as_json and rows:
        screen.table(process_table(rows))
    local = [process_document(row) for row in rows]
    try:
        async with connect() as api:
            overview = Overview(
                await api.get(Agents, "agents"),
                await api.get(Queues, "queue"),
                await api.get(IntakeStatus, "intake"),
                await _fetch_dead_letters(api),
            )
    except Unavailable as trouble:
        if as_json:
            screen.json({"is_up": False, "reason": str(trouble), "processes": local})
        else:
            screen.say(str(trouble))
        return INFRASTRUCTURE
    if as_json:
        screen.json({"is_up": True, "processes": local, **_overview_document(overview)})
    else:
        _print_overview(screen, overview)
    return OK


async def _fetch_dead_letters(api: Api) -> Response[DeadLetters] | None:
    """Return the dead letters, which only operators see."""
    try:
        return await api.get(DeadLetters, "admin", "deadletters")
    except Refused:
        return None


def _overview_document(overview: Overview) -> dict[str, Any]:
    letters, queue = overview.dead_letters, overview.queue.document
    return {
        "agents": overview.agents.document["items"],
        "queue": queue["items"],
        "pools": queue["pools"],
        "parked": queue["parked"],
        "intake_paused": overview.intake.value.paused,
        "dead_letters": None if letters is None else letters.document["items"],
    }


def _print_overview(screen: Screen, overview: Overview) -> None:
    agents, queue = overview.agents.value.items, overview.queue.value
    screen.table(agent_table(agents))
    screen.table(pool_table(queue.pools))
    screen.table(queue_table(queue.items))
    held = list(held_back_lines(overview.intake.value.paused, queue.pools, agents, queue.parked))
    if overview.dead_letters is not None:
        held += _dead_letter_lines(overview.dead_letters.value)
    for line in held or ["nothing is held back"]:
        screen.say(line)


def _dead_letter_lines(letters: DeadLetters) -> list[str]:
    if not letters.items:
        return []
    count = count_text(len(letters.items), "event")
    return [f"{count} given up by their consumers: warpboard admin deadletter list"]


def agent_facts(agents: Sequence[Agent]) -> Iterator[str]:
    """Describe what to know before submitting, from what the live agents offer."""
    alive = [agent for agent in agents if agent.is_alive]
    if not alive:
        yield "no agent is alive yet: submissions wait"
    if any(agent.gpu == CPU for agent in alive):
        yield "no GPU: the agent offers the device cpu, shown as GPU type CPU"
    for agent in alive:
        yield from _offer_lines(agent)


def welcome_lines(url: str) -> Iterator[str]:
    """Tell a new user of this machine where everything is."""
    yield f"the API: {url}/docs; accounts and tokens for others: {url}/login"
    yield "to begin, in another terminal: warpboard problem publish problems/vectoradd, then"
    yield "  warpboard submit FILE --leaderboard NAME --mode test (here that takes no login)"


def _offer_lines(agent: Agent) -> Iterator[str]:
    """Describe an agent's isolation, and what it lacks with the fix."""
    level = agent.level or "unknown"
    warning = ": run only code you trust" if level in ("none", "weak") else ""
    yield f"agent {agent.id}: isolation {level}, timing tier {agent.tier or 'unknown'}{warning}"
    yield from (f"  {line}" for line in missing_lines(agent.missing))
    if agent.toolchains:
        tools = (f"{name} {one_line(version, 40)}" for name, version in agent.toolchains.items())
        yield f"  toolchains: {', '.join(tools)}"
    if agent.quarantine:
        yield f"  in quarantine: {one_line(agent.quarantine)}"
    if "ranked" not in agent.modes:
        reason = agent.details.get("ranked_not_offered", "it does not say why")
        yield f"  mode ranked is not offered: {one_line(reason)}"


def pid_text(pid: int | None) -> str:
    """Format a process number, if there is one."""
    return NO_VALUE if pid is None else str(pid)


def held_back_lines(
    intake: str | None, pools: Sequence[Pool], agents: Sequence[Agent], parked: Parked | None
) -> Iterator[str]:
    """Describe everything that operators or the platform hold back, one line each."""
    if intake is not None:
        yield f"intake is paused: {one_line(intake)}"
    for pool in pools:
        if pool.paused is not None:
            yield f"pool {pool.gpu} is paused: {one_line(pool.paused)}"
    for agent in agents:
        if why := held_back(agent):
            yield f"agent {agent.id} is {why}"
    if parked is not None:
        yield f"the read models stand before event {parked.seq}: {one_line(parked.error)}"
