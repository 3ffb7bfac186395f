"""Commands that start, stop, inspect and serve the platform, and the completion of shells."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click import Path as PathType
from click.shell_completion import get_completion_class

from shared.errors import Refused
from shared.presentation.responses import JsonObject
from warpboard.domain.exit_codes import OK
from warpboard.service import platform
from warpboard.service.answers import JsonScreen
from warpboard.service.demo import Demo
from warpboard.terminal import options
from warpboard.terminal.context import AppContext, PlatformTarget, run

FOLDER = PathType(file_okay=False, path_type=Path)
COMPLETION_VARIABLE = "_WARPBOARD_COMPLETE"
# The shells that complete, and where the script belongs.
SHELLS = {
    "bash": 'eval "$(warpboard completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(warpboard completion zsh)" in ~/.zshrc',
    "fish": "warpboard completion fish > ~/.config/fish/completions/warpboard.fish",
}


@click.command()
@click.option("--folder", type=FOLDER, default=".warpboard", show_default=True, help="Its data.")
@click.option(
    *("--discord-sim", "has_discord"),
    is_flag=True,
    help="Add a simulated Discord with the bot, for a browser.",
)
@options.level_min
@options.as_json
@options.pass_app
def up(
    context: AppContext, folder: Path, level_min: str | None, *, has_discord: bool, as_json: bool
) -> int:
    """Start the platform on this machine and run it until Ctrl-C.

    Ranked times need the isolation that this machine offers, or that --level-min demands.

    \b
    Example:
      warpboard up --folder .warpboard
    """
    # `supervise` handles signals itself, because it has to stop everything in order.
    demand = platform.resolve_demand(context.harness, level_min)
    up_options = platform.UpOptions(folder, demand, has_discord)
    return asyncio.run(
        platform.up(context.machine, context.connect, context.screen, up_options, as_json=as_json)
    )


@click.command()
@options.folder
@options.as_json
@options.pass_app
def down(context: AppContext, folder: Path | None, *, as_json: bool) -> int:
    """Stop the platform that runs on this machine.

    \b
    Example:
      warpboard down
    """
    return platform.down(context.machine, context.screen, context.folder(folder), as_json=as_json)


@click.command()
@options.as_json
@options.viewer_options
@options.pass_app
def status(context: AppContext, /, place: PlatformTarget, *, as_json: bool) -> int:
    """Show processes, agents, queues and what is held back.

    Operators also see dead letters. Exit code 3 if the platform is not up.

    \b
    Example:
      warpboard status --json
    """
    rows = () if place.url else context.machine.describe(context.folder(place.folder))
    return run(platform.status(lambda: context.look(place), context.screen, rows, as_json=as_json))


@click.command()
@click.option(
    "--folder", type=FOLDER, default=".warpboard/demo", show_default=True, help="Its data."
)
@click.option(
    "--problems",
    type=options.FOLDER,
    default="problems",
    show_default=True,
    help="The problems to publish.",
)
@click.option("--keep", "is_kept", is_flag=True, help="Keep it running afterwards, until Ctrl-C.")
@options.level_min
@options.as_json
@options.pass_app
def demo(context: AppContext, /, *, as_json: bool, **values: Any) -> int:
    """Demonstrate the platform: start, submit, rank, replay, stop.

    Three participants submit. Exit code 0 if all verdicts are as expected and the leaderboards
    equal those rebuilt from event 1.

    \b
    Example:
      warpboard demo
    """
    demand = platform.resolve_demand(context.harness, values["level_min"])
    demo_run = Demo(
        *(context.machine, context.books, context.connect),
        office=lambda: context.office(PlatformTarget(None, None, values["folder"])),
        disk=context.disk,
        screen=JsonScreen(context.screen) if as_json else context.screen,
        as_json=as_json,
        folder=values["folder"],
        problems=values["problems"],
        demand=demand,
        is_kept=values["is_kept"],
    )
    return asyncio.run(demo_run.run())


def _client_config(server_options: Mapping[str, str]) -> JsonObject:
    """Return the entry of a client's configuration, with the server's options.

    >>> _client_config({"--url": "http://h"})["mcpServers"]["warpboard"]["args"]
    ['mcp', '--url', 'http://h']
    """
    words = [word for name, value in server_options.items() for word in (name, value)]
    return {"mcpServers": {"warpboard": {"command": "warpboard", "args": ["mcp", *words]}}}


@click.command()
@options.as_json
@options.platform_options
@options.pass_app
def mcp(context: AppContext, /, place: PlatformTarget, *, as_json: bool) -> int:
    """Serve the Model Context Protocol on stdin and stdout.

    It is for a program that writes kernels. A client starts this command; it acts as the account
    that you are logged in with. With --json it prints the configuration for a client and exits.
    Ctrl-D or Ctrl-C ends it.

    \b
    Example:
      warpboard mcp --json --url https://warpboard.example
    """
    if as_json:
        # A client may start its servers in any directory.
        folder = place.folder.resolve() if place.folder else None
        server_options = {"--url": place.url, "--folder": folder, "--as": place.participant}
        context.screen.json(
            _client_config({name: str(value) for name, value in server_options.items() if value})
        )
        return OK
    if sys.stdin is not None and sys.stdin.isatty():
        context.screen.note(
            "this command is for programs: --json prints the configuration for a client"
        )
    return run(context.serve(place))


@click.command()
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
@options.as_json
@options.pass_app
def completion(context: AppContext, /, shell: str, *, as_json: bool) -> int:
    """Print the completion script of a SHELL.

    The shell then completes commands, options and problem names.

    \b
    Example:
      warpboard completion bash >> ~/.bashrc
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise Refused("bad_settings", f"no completion is known for {shell}", "shell")
    program = click.get_current_context().find_root().command
    script = kind(program, {}, "warpboard", COMPLETION_VARIABLE).source()
    if as_json:
        context.screen.json({"shell": shell, "use": SHELLS[shell], "script": script})
    else:
        context.screen.text(script + "\n")
    return OK
