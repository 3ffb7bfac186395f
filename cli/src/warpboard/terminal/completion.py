"""What a shell completes: commands and options, and the names of problems."""

import asyncio
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from shared.errors import Failed, Refused
from warpboard.domain.answers import read
from warpboard.domain.problems import Problems
from warpboard.service.ports import Api
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, Place

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_WARPBOARD_COMPLETE"
# Somebody waits for it with a finger on a key.
WITHIN_S = 1.0
LINES = {
    "bash": 'eval "$(warpboard completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(warpboard completion zsh)" in ~/.zshrc',
    "fish": "warpboard completion fish > ~/.config/fish/completions/warpboard.fish",
}


class Problem(click.ParamType[str]):
    """The slug of a problem; a shell is told those that the platform has."""

    name = "slug"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The problems whose names begin so; none where the platform does not say it at once."""
        del param
        try:
            desk = _desk(ctx)
            place = Place(ctx.params.get("url"), ctx.params.get("who"), ctx.params.get("folder"))
            found = asyncio.run(_slugs(desk, place))
        except (Refused, Failed, TimeoutError):
            return []
        return [CompletionItem(slug) for slug in found if slug.startswith(incomplete)]


PROBLEM = Problem()


def _desk(ctx: click.Context) -> Desk:
    make: Any = ctx.find_root().command
    found: Desk = make.desk()
    return found


async def _slugs(desk: Desk, place: Place) -> list[str]:
    async with asyncio.timeout(WITHIN_S), desk.api(place) as api:
        return await slugs(api)


async def slugs(api: Api) -> list[str]:
    """The problems' names."""
    return [one.slug for one in read(await api.get("problems"), Problems).items]


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@options.as_json
@click.pass_context
def completion(ctx: click.Context, /, shell: str, *, as_json: bool) -> int:
    """Print what lets a SHELL complete commands, options and the names of problems.

    \b
    Example:
      warpboard completion bash >> ~/.bashrc
    """
    root, desk = ctx.find_root(), ctx.obj
    kind = get_completion_class(shell)
    if kind is None:
        raise Refused("bad_settings", f"no completion is known for {shell}", "shell")
    script = kind(root.command, {}, "warpboard", VARIABLE).source()
    if as_json:
        desk.screen.json({"shell": shell, "use": LINES[shell], "script": script})
    else:
        desk.screen.text(script + "\n")
    return 0
