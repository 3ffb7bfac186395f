"""Runs commands in an environment of their own, against a stand-in where the platform would be."""

from collections.abc import Mapping

from click.testing import CliRunner, Result

from tests.cli.standin import Heard, Say, standing
from warpboard.__main__ import desk
from warpboard.terminal.group import commands

# Built once: some hundred commands take 10 ms.
PROGRAM = commands(desk)
UNSET = (
    "WARPBOARD_URL",
    "WARPBOARD_PARTICIPANT",
    "WARPBOARD_TOKEN",
    "WARPBOARD_OPERATOR_TOKEN",
    "XDG_CONFIG_HOME",
)
HOME = "/nonexistent"  # Nobody's tokens are found, and nobody's are lost.
CACHE = "/dev/null/cache"  # Where nothing can be kept.


def environment(said: Mapping[str, str]) -> dict[str, str | None]:
    """An environment in which nothing else is said; None is what must not be there."""
    usual = {"HOME": HOME, "XDG_CACHE_HOME": CACHE}
    return dict.fromkeys(UNSET) | usual | dict(said)


def warpboard(*arguments: object, **environ: str) -> Result:
    """Run a command in an environment of its own."""
    words = [str(one) for one in arguments]
    return CliRunner().invoke(PROGRAM, words, env=environment(environ))


def asked(say: Say, *arguments: object, **environ: str) -> tuple[Result, list[Heard]]:
    """Run a command against a stand-in; how it ended, and what was asked."""
    with standing(say) as standin:
        return warpboard(*arguments, "--url", standin.url, **environ), standin.heard
