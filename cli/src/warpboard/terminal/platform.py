"""Commands that start, stop and serve the platform, and the completion of shells."""

import asyncio
import signal
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from shared.api.agents import Agent, Agents
from shared.errors import Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.responses import JsonObject, parse_response
from shared.presentation.units import one_line
from warpboard.domain.demand import Demand, Offer, choose_demand, demand_line, missing_lines
from warpboard.domain.exit_codes import INTERRUPTED, OK
from warpboard.screen import Screen
from warpboard.service.context import AppContext
from warpboard.service.machine import Platform, Row
from warpboard.service.ports import Harness, Unavailable
from warpboard.terminal import options
from warpboard.terminal.command_types import local_command
from warpboard.terminal.status import process_table

TOKEN = "operator_token"  # noqa: S105  (a file's name)
SIM = "discord-sim"
AGENT_S_MAX = 15.0
STEP_S = 0.25
CPU = "CPU"
COMPLETION_VARIABLE = "_WARPBOARD_COMPLETE"
# The shells that complete, and where the script belongs.
SHELLS = {
    "bash": 'eval "$(warpboard completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(warpboard completion zsh)" in ~/.zshrc',
    "fish": "warpboard completion fish > ~/.config/fish/completions/warpboard.fish",
}


@local_command(
    "up --folder .warpboard",
    parameters=(
        click.option(
            "--folder",
            type=options.NEW_FOLDER,
            default=".warpboard",
            show_default=True,
            help="Its data.",
        ),
        click.option(
            *("--discord-sim", "has_discord"),
            is_flag=True,
            help="Add a simulated Discord with the bot, for a browser.",
        ),
        options.LEVEL_MIN,
    ),
)
def up(context: AppContext, folder: Path, level_min: str | None, *, has_discord: bool) -> int:
    """Start the platform on this machine and run it until Ctrl-C.

    Ranked times need the isolation that this machine offers, or that --level-min demands.
    """
    demand = resolve_demand(context.harness, level_min)
    # `supervise` handles signals itself, because it has to stop everything in order.
    return asyncio.run(_run_platform(context, folder, demand, has_discord=has_discord))


async def _run_platform(
    context: AppContext, folder: Path, demand: Demand, *, has_discord: bool
) -> int:
    starting = ExitStack()

    async def work(platform: Platform) -> None:
        starting.close()
        await announce(context, platform, demand)
        context.report(*welcome_lines(platform.url), *discord_lines(platform.rows))
        context.report(
            f"operators show the token in {folder / TOKEN}; warpboard admin finds it there",
            "Ctrl-C stops it",
        )
        if context.as_json:
            rows = [row._asdict() for row in platform.rows]
            context.screen.json({"url": platform.url, "folder": str(folder), "processes": rows})
        await asyncio.Event().wait()

    with starting:
        starting.enter_context(show_platform_progress(context.screen, "starting"))
        signal_received = await context.machine.supervise(
            folder, demand, work, has_discord=has_discord
        )
    context.screen.note("warpboard: stopped")
    return INTERRUPTED if signal_received == signal.SIGINT else OK


@contextmanager
def show_platform_progress(screen: Screen, step: str) -> Iterator[None]:
    """Show that a step of the platform is under way."""
    with screen.live(["platform"]) as live:
        live.show("platform", ProgressText(step))
        yield


def resolve_demand(harness: Harness, level_min: str | None) -> Demand:
    """Return what a platform here demands of ranked times."""
    return choose_demand(parse_response(harness.offer(), Offer), level_min)


async def announce(context: AppContext, platform: Platform, demand: Demand) -> None:
    """Print what runs where, and what to know before submitting."""
    agents: Sequence[Agent] = ()
    with show_platform_progress(context.screen, "waiting for an agent"):
        deadline = time.monotonic() + AGENT_S_MAX
        async with context.connect(platform.url) as api:
            while time.monotonic() < deadline:
                try:
                    agents = (await api.get(Agents, "agents")).value.items
                except Unavailable:
                    agents = ()
                if any(agent.is_alive for agent in agents):
                    break
                await asyncio.sleep(STEP_S)
    context.report(process_table(platform.rows), f"Warpboard is up: {platform.url}")
    context.report(*agent_facts(agents), demand_line(demand))


def discord_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Tell where the simulated Discord is, if there is one."""
    for row in rows:
        if row.name == SIM:
            yield f"a Discord of this machine's own, with the bot, in a browser: {row.address}"


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


@local_command("down", parameters=(options.folder_options,))
def down(context: AppContext) -> int:
    """Stop the platform that runs on this machine."""
    folder = context.folder(context.place)
    with show_platform_progress(context.screen, "stopping"):
        was_up = context.machine.down(folder)
    line = "stopped" if was_up else f"nothing runs in {folder}"
    return context.show({"folder": str(folder), "was_up": was_up}, [line])


def _client_config(server_options: Mapping[str, str]) -> JsonObject:
    """Return the entry of a client's configuration, with the server's options.

    >>> _client_config({"--url": "http://h"})["mcpServers"]["warpboard"]["args"]
    ['mcp', '--url', 'http://h']
    """
    words = [word for name, value in server_options.items() for word in (name, value)]
    return {"mcpServers": {"warpboard": {"command": "warpboard", "args": ["mcp", *words]}}}


@local_command("mcp --json --url https://warpboard.example", access=options.platform_options)
def mcp(context: AppContext) -> int | Coroutine[Any, Any, int]:
    """Serve the Model Context Protocol on stdin and stdout.

    It is for a program that writes kernels. A client starts this command; it acts as the account
    that you are logged in with. With --json it prints the configuration for a client and exits.
    Ctrl-D or Ctrl-C ends it.
    """
    place = context.place
    if context.as_json:
        # A client may start its servers in any directory.
        folder = place.folder.resolve() if place.folder else None
        server_options = {"--url": place.url, "--folder": folder, "--as": place.participant}
        given_options = {name: str(value) for name, value in server_options.items() if value}
        return context.show(_client_config(given_options), [])
    if sys.stdin is not None and sys.stdin.isatty():
        context.screen.note(
            "this command is for programs: --json prints the configuration for a client"
        )
    return context.serve(place)


@local_command(
    "completion bash >> ~/.bashrc",
    parameters=(click.argument("shell", type=click.Choice(tuple(SHELLS))),),
)
def completion(context: AppContext, shell: str) -> int:
    """Print the completion script of a SHELL.

    The shell then completes commands, options and problem names.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise Refused("bad_settings", f"no completion is known for {shell}", "shell")
    program = click.get_current_context().find_root().command
    script = kind(program, {}, "warpboard", COMPLETION_VARIABLE).source()
    if context.as_json:
        context.screen.json({"shell": shell, "use": SHELLS[shell], "script": script})
    else:
        context.screen.text(script + "\n")
    return OK
