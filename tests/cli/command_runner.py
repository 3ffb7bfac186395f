"""Runs commands in a clean environment, against a stand-in for the platform."""

from collections.abc import Mapping

from click.testing import CliRunner, Result

from tests.cli.stand_in import ReceivedRequest, Respond, run_stand_in
from warpboard.context import create_context
from warpboard.terminal.program import Program

# Built once, because some hundred commands take 10 ms.
PROGRAM = Program(create_context)
UNSET = (
    "WARPBOARD_URL",
    "WARPBOARD_PARTICIPANT",
    "WARPBOARD_TOKEN",
    "WARPBOARD_OPERATOR_TOKEN",
    "XDG_CONFIG_HOME",
)
HOME = "/nonexistent"  # No tokens are found or lost here.
CACHE = "/dev/null/cache"  # Nothing can be stored here.


def environment(variables: Mapping[str, str]) -> dict[str, str | None]:
    """Return an environment without anything else; None marks variables that must be unset."""
    defaults = {"HOME": HOME, "XDG_CACHE_HOME": CACHE}
    return dict.fromkeys(UNSET) | defaults | dict(variables)


def run_warpboard(*arguments: object, **environ: str) -> Result:
    """Run a command in a clean environment."""
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(PROGRAM, words, env=environment(environ))


def run_against(
    respond: Respond, *arguments: object, **environ: str
) -> tuple[Result, list[ReceivedRequest]]:
    """Run a command against a stand-in; return its result and the requests that arrived."""
    with run_stand_in(respond) as standin:
        return run_warpboard(*arguments, "--url", standin.url, **environ), standin.heard
