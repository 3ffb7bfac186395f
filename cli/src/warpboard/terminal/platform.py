"""Commands that start, stop and serve the platform, and the completion of shells."""

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from harness.vocabulary import CPU_TYPE
from shared.api.agents import Agent, Agents
from shared.api.fields import parse_response
from shared.api_client import Unavailable
from shared.errors import Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.units import one_line
from warpboard.context import AppContext
from warpboard.domain.demand import (
    DEFAULT_PLAN,
    AgentPlan,
    Demand,
    Offer,
    choose_demand,
    choose_devices,
    demand_environ,
    demand_line,
    gpu_lines,
    missing_lines,
)
from warpboard.domain.output import INTERRUPTED, OK
from warpboard.processes.services import down as stop_platform
from warpboard.screen import Screen
from warpboard.settings import TOKEN
from warpboard.terminal import options
from warpboard.terminal.options import local_command
from warpboard.terminal.status import process_table

if TYPE_CHECKING:  # It imports httpx, which `completion` does without.
    from warpboard.processes.platform import Platform

SIM = "discord-sim"
AGENT_S_MAX = 15.0
STEP_S = 0.25
LAUNCHED_MAX = 16
# What the agent times; an operator may set it for the agent alone.
DEVICE_VARIABLE = "WARPBOARD_GPU_AGENT_DEVICE"
COMPLETION_VARIABLE = "_WARPBOARD_COMPLETE"
# Ingest accepts such URLs, and ranker sends to them.
LOCAL_WEBHOOKS = {
    "WARPBOARD_INGEST_WEBHOOKS_LOCAL": "true",
    "WARPBOARD_RANKER_WEBHOOKS_LOCAL": "true",
}
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
        click.option(
            *("--device", "requested_devices"),
            multiple=True,
            metavar="DEVICE",
            help="What agents time: cpu, cuda, hip, a GPU such as cuda:0, or none; may be "
            "repeated. Default: every GPU found here, else cpu.",
        ),
        click.option(
            *("--launch", "launched"),
            type=click.IntRange(0, LAUNCHED_MAX),
            default=0,
            metavar="N",
            help="Also start agents on demand, each for one job, at most N at once. They time the "
            "processor, unless WARPBOARD_LAUNCHER_GPUS and WARPBOARD_GPU_AGENT_DEVICE say so.",
        ),
        click.option(
            *("--local-webhooks", "has_local_webhooks"),
            is_flag=True,
            help="Let webhooks lead to this machine, also with http://, to develop a receiver. "
            "Any participant can then send requests to its open ports.",
        ),
    ),
)
def up(
    context: AppContext,
    folder: Path,
    level_min: str | None,
    requested_devices: tuple[str, ...],
    launched: int,
    *,
    has_discord: bool,
    has_local_webhooks: bool,
) -> int:
    """Start the platform on this machine and run it until Ctrl-C.

    It starts an agent for each GPU that it finds, else one for the processor. Ranked times need the
    isolation that this machine offers, or that --level-min demands.
    """
    configured = context.settings.environ.get(DEVICE_VARIABLE)
    requested_devices = requested_devices or ((configured,) if configured else ())

    async def prepare_and_run() -> int:
        offer = read_offer(context)
        devices = choose_devices(offer, requested_devices)
        context.report(*gpu_lines(offer, devices))
        demand = choose_demand(offer, level_min)
        plan = AgentPlan(devices, launched)
        # `supervise` handles signals itself, because it has to stop everything in order.
        return await _run_platform(context, folder, demand, plan, has_discord=has_discord)

    if has_local_webhooks:
        context = replace(context, overrides=LOCAL_WEBHOOKS | dict(context.overrides))
    return asyncio.run(prepare_and_run())


async def _run_platform(
    context: AppContext, folder: Path, demand: Demand, plan: AgentPlan, *, has_discord: bool
) -> int:
    starting = ExitStack()

    async def work(platform: "Platform") -> None:
        starting.close()
        await announce(context, platform, demand, plan)
        pages = [row.address for row in platform.rows if row.name == SIM]
        context.report(
            *welcome_lines(platform.url),
            *(line for page in pages for line in simulator_lines(page)),
            f"the operator's token is in {folder / TOKEN}; warpboard admin reads it there",
            "Ctrl-C stops it",
        )
        if context.as_json:
            rows = [row._asdict() for row in platform.rows]
            context.screen.json({"url": platform.url, "folder": str(folder), "processes": rows})
        await asyncio.Event().wait()

    with starting:
        starting.enter_context(show_platform_progress(context.screen, "starting"))
        signal_received = await supervise_platform(
            context, folder, demand, work, plan, has_discord=has_discord
        )
    context.screen.note("warpboard: stopped")
    return INTERRUPTED if signal_received == signal.SIGINT else OK


async def supervise_platform(
    context: AppContext,
    folder: Path,
    demand: Demand,
    work: "Callable[[Platform], Awaitable[None]]",
    plan: AgentPlan = DEFAULT_PLAN,
    *,
    has_discord: bool = False,
) -> signal.Signals | None:
    """Run a platform while `work` lasts; return the signal that ended it, if one did.

    The environment takes precedence over a demand that is not the operator's own. `has_discord`
    adds a simulated Discord with a bot. Raises Refused if the folder is in use, Failed, and the
    errors of the work.
    """
    from warpboard.processes.platform import Platform, supervise
    from warpboard.processes.services import local_services, with_discord

    environ, demanded = context.settings.environ, demand_environ(demand)
    effective = demanded if demand.is_own else demanded | dict(environ)
    overrides = {name: effective[name] for name in demanded} | dict(context.overrides)
    table = with_discord if has_discord else local_services
    return await supervise(Platform(folder, environ, overrides, table, plan), work)


@contextmanager
def show_platform_progress(screen: Screen, step: str) -> Iterator[None]:
    """Show that a step of the platform is under way."""
    with screen.live(["platform"]) as show:
        show("platform", ProgressText(step))
        yield


def read_offer(context: AppContext) -> Offer:
    """Return what this machine offers.

    This loads the harness: in a task of asyncio, a Ctrl-C meanwhile cancels the task. Elsewhere it
    raises KeyboardInterrupt, which is lost in some callbacks of an import.
    """
    return parse_response(context.harness.offer(), Offer)


async def announce(
    context: AppContext, platform: "Platform", demand: Demand, plan: AgentPlan = DEFAULT_PLAN
) -> None:
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
                if sum(map(is_ready, agents)) >= len(plan.devices):
                    break
                await asyncio.sleep(STEP_S)
    context.report(process_table(platform.rows), f"Warpboard is up: {platform.url}")
    context.report(*agent_facts(agents))
    if plan.launched:
        context.report(f"agents start on demand, each for one job, at most {plan.launched} at once")
    context.report(demand_line(demand))


def is_ready(agent: Agent) -> bool:
    """Whether an agent is alive and has said what it offers, which it does a moment later."""
    return agent.is_alive and agent.registered_at is not None


def agent_facts(agents: Sequence[Agent]) -> Iterator[str]:
    """Describe what to know before submitting: what the live agents offer and what they lack."""
    alive = [agent for agent in agents if is_ready(agent)]
    if not alive:
        yield "no agent is alive yet: submissions wait"
    if alive and all(agent.gpu == CPU_TYPE for agent in alive):
        yield "no GPU: the agent offers the device cpu, shown as GPU type CPU"
    for agent in alive:
        level = agent.level or "unknown"
        warning = ": run only code you trust" if level in ("none", "weak") else ""
        yield f"agent {agent.id}: isolation {level}, timing tier {agent.tier or 'unknown'}{warning}"
        yield from (f"  {line}" for line in missing_lines(agent.missing))
        if agent.toolchains:
            tools = (f"{name} {one_line(text, 40)}" for name, text in agent.toolchains.items())
            yield f"  toolchains: {', '.join(tools)}"
        if agent.quarantine:
            yield f"  in quarantine: {one_line(agent.quarantine)}"
        if "ranked" not in agent.modes:
            reason = agent.details.get("ranked_not_offered", "it does not say why")
            yield f"  mode ranked is not offered: {one_line(reason)}"


def welcome_lines(url: str) -> Iterator[str]:
    """Tell a new user of this machine where everything is."""
    yield f"the web site: {url}/"
    yield f"the API: {url}/docs; others log in at {url}/login"
    yield "next, in another terminal: warpboard problem publish problems/vectoradd, then"
    yield "  warpboard submit FILE --leaderboard NAME --mode test (needs no login on this machine)"


def simulator_lines(page: str) -> Iterator[str]:
    """Tell a new user of this machine how to try the bot."""
    from warpboard.processes.services import SIM_LAUNCHERS, SIM_USERS

    users = ", ".join(f"{user.name} ({user.role or 'participant'})" for user in SIM_USERS)
    yield f"a simulated Discord with the bot, for a browser: {page}"
    yield f"  its users: {users}"
    names = " and ".join(SIM_LAUNCHERS)
    yield f"  its runners {names} are stand-ins: their agents start on this machine"


@local_command("down", parameters=options.DATA_FOLDER, access=())
def down(context: AppContext) -> int:
    """Stop the platform that runs on this machine."""
    folder = context.folder
    with show_platform_progress(context.screen, "stopping"):
        was_up = stop_platform(folder)
    line = "stopped" if was_up else f"nothing runs in {folder}"
    return context.show({"folder": str(folder), "was_up": was_up}, [line])


@local_command("mcp --json --url https://warpboard.example", access=options.PLATFORM)
def mcp(context: AppContext) -> int | Coroutine[Any, Any, int]:
    """Serve the Model Context Protocol on stdin and stdout.

    It is for a program that writes kernels. A client starts this command; it acts as the account
    that you are logged in with. With --json it prints the configuration for a client and exits.
    Ctrl-D or Ctrl-C ends it.
    """
    if context.as_json:
        place = context.place
        # A client may start its servers in any directory.
        folder = place.folder.resolve() if place.folder else None
        server_options = {"--url": place.url, "--folder": folder, "--as": place.participant}
        arguments = ["mcp"]
        for name, value in server_options.items():
            arguments += [name, str(value)] if value else []
        server = {"command": "warpboard", "args": arguments}
        return context.show({"mcpServers": {"warpboard": server}}, [])
    if sys.stdin is not None and sys.stdin.isatty():
        context.screen.note(
            "this command is for programs: --json prints the configuration for a client"
        )
    try:
        # It takes as long to load as everything else, and no other command needs it.
        from warpboard.mcp.server import serve
    except ModuleNotFoundError as error:
        reason = f"this needs {error.name}: pip install 'warpboard-cli[mcp]'"
        raise Refused("no_mcp", reason) from error
    return serve(context)


@local_command(
    "completion bash >> ~/.bashrc",
    parameters=(click.argument("shell", type=click.Choice(tuple(SHELLS))),),
)
def completion(context: AppContext, shell: str) -> int:
    """Print the completion script of a SHELL.

    The shell then completes commands, options and problem names.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    program = click.get_current_context().find_root().command
    script = kind(program, {}, "warpboard", COMPLETION_VARIABLE).source()
    if context.as_json:
        context.screen.json({"shell": shell, "use": SHELLS[shell], "script": script})
    else:
        context.screen.text(script + "\n")
    return OK
