"""What participants do: begin, run here, submit, end, take back, ask to look again."""

import sys
from pathlib import Path
from typing import Any

import click
from click import Path as PathType

from warpboard.domain.outcome import FAILED
from warpboard.service import consenting, running, starting, submitting
from warpboard.service.deeds import Deed, act
from warpboard.terminal import options
from warpboard.terminal.completion import PROBLEM
from warpboard.terminal.desk import Desk, Place, run

BAN = "ban"


@click.command()
@click.argument("problem", type=PROBLEM)
@click.argument("folder_", metavar="[DIR]", required=False, type=PathType(path_type=Path))
@click.option("--gpu", "gpus", multiple=True, metavar="TYPE", help="GPU type; may be repeated.")
@click.option("--language", metavar="NAME", help="Such as cuda; else Python, if there is one.")
@click.option("--force", "is_forced", is_flag=True, help="Overwrite files that are there.")
@options.as_json
@options.place
@click.pass_obj
def init(desk: Desk, /, place: Place, problem: str, **asked: Any) -> int:
    """Begin with a PROBLEM: a folder with a file to make faster, and what it must compute.

    AGENTS.md in it tells a program that writes kernels how to go about it.

    \b
    Example:
      warpboard init matmul --gpu H200
    """
    folder = asked["folder_"] or Path(problem)
    wanted = starting.Asked(
        problem, folder, asked["gpus"], asked["language"], asked["is_forced"], asked["as_json"]
    )
    url = desk.url(place)
    return desk.ask(place, lambda api: starting.init(api, desk.disk, desk.screen, url, wanted))


@click.command(name="run")
@click.argument("file", type=options.FILE)
@click.option("--problem", type=options.PROBLEM, required=True, help="Its directory, or file.")
@options.mode("test")
@options.level_min
@options.save
@options.as_json
@click.pass_obj
def run_here(desk: Desk, /, *, as_json: bool, **asked: Any) -> int:
    """Run FILE here for a problem's directory, in the agents' own harness, without any server.

    \b
    Example:
      warpboard run kernel.py --problem problems/matmul --mode benchmark
    """
    wanted = running.Asked(**asked | {"level_min": asked["level_min"] or "none"})
    return run(running.run(desk.disk, desk.harness, desk.screen, wanted, as_json=as_json))


@click.command(name="duel")
@click.argument("problem", type=options.PROBLEM)
@click.argument("first", type=options.FILE)
@click.argument("second", type=options.FILE)
@options.level_min
@options.save
@options.as_json
@click.pass_obj
def duel_here(desk: Desk, /, *, as_json: bool, **asked: Any) -> int:
    """Time FIRST and SECOND in alternation here for a PROBLEM's directory: which is faster?

    Every call of both is judged. They are told apart from 0.15 % on, if the interval allows.
    The exit code tells how it ended: 0 both passed, 1 one did not, 3 infrastructure.

    \b
    Example:
      warpboard duel problems/matmul old.py new.py
    """
    request = running.DuelRequest(**asked | {"level_min": asked["level_min"] or "none"})
    return run(running.duel(desk.disk, desk.harness, desk.screen, request, as_json=as_json))


@click.command()
@click.argument("file", type=options.FILE)
@click.option(
    "--leaderboard",
    type=PROBLEM,
    metavar="SLUG",
    help="Else the file's #!POPCORN leaderboard line.",
)
@click.option("--gpu", "gpus", multiple=True, metavar="TYPE", help="GPU type; may be repeated.")
@options.mode("ranked")
@click.option(
    "--case",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="With mode profile: the only timed case, from 1 on; 0 is every one.",
)
@click.option(
    "--wait/--no-wait", "is_waiting", default=True, show_default=True, help="See it through."
)
@click.option(
    "--output",
    type=PathType(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the whole answer as JSON into FILE too.",
)
@click.option("--note", default="", metavar="TEXT", help="A remark that you alone see.")
@click.option("--tag", default="", metavar="TAG", help="A word to list it by: list --tag TAG.")
@options.timeout
@options.as_json
@options.place
@click.pass_obj
def submit(desk: Desk, /, place: Place, **asked: Any) -> int:
    """Submit FILE and wait for its verdict.

    The exit code tells how it ended: 0 passed, 1 not passed, 2 refused, 3 infrastructure,
    4 your quota is used up, 5 passed but not eligible for the leaderboard.

    \b
    Example:
      warpboard submit kernel.py --leaderboard matmul --gpu CPU --mode ranked
      warpboard submit kernel.py --mode test --json --output verdict.json
    """
    wanted = submitting.Asked(**asked)
    return desk.ask(place, lambda api: submitting.submit(api, desk.disk, desk.screen, wanted))


@click.command()
@options.number
@click.option("--reason", default="", metavar="TEXT", help="Why, for the record.")
@options.as_json
@options.place
@click.pass_obj
def cancel(desk: Desk, /, place: Place, number: int, *, reason: str, as_json: bool) -> int:
    """Let your submission NUMBER end without a verdict; its quota comes back.

    \b
    Example:
      warpboard cancel 12 --reason "the wrong file"
    """
    deed = Deed("POST", ("submissions", number, "cancel"), {"reason": reason})
    return desk.ask(place, lambda api: act(api, desk.screen, deed, as_json=as_json))


@click.command()
@options.number
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask whether you are sure.")
@options.as_json
@options.place
@click.pass_obj
def delete(desk: Desk, /, place: Place, number: int, *, is_sure: bool, as_json: bool) -> int:
    """Take your submission NUMBER off its leaderboard for good; its quota does not come back.

    \b
    Example:
      warpboard delete 12 --yes
    """
    if not is_sure:
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.UsageError("nobody can be asked here: --yes says that you are sure")
        if not click.confirm(f"take submission {number} back for good?", err=True):
            desk.screen.note("nothing was done")
            return FAILED
    deed = Deed("DELETE", ("submissions", number), {})
    return desk.ask(place, lambda api: act(api, desk.screen, deed, as_json=as_json))


class Decided(click.ParamType[str]):
    """What was decided against somebody: about a submission, by its number, or a ban."""

    name = "number|ban"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The number, or the word."""
        if value != BAN and not (value.isdecimal() and int(value) >= 1):
            self.fail(f"{value!r}: expected a submission's number, or {BAN}", param, ctx)
        return value


@click.command()
@click.argument("what", metavar="NUMBER|ban", type=Decided())
@click.argument("text")
@options.as_json
@options.place
@click.pass_obj
def appeal(desk: Desk, /, place: Place, what: str, *, text: str, as_json: bool) -> int:
    """Ask to look again at what was decided about your submission NUMBER, or at your ban.

    \b
    Example:
      warpboard appeal 12 "it reads the input once; line 4 shows where"
      warpboard appeal ban "the other account is my brother's"
    """
    path = ("me", "appeal") if what == BAN else ("submissions", int(what), "appeal")
    deed = Deed("POST", path, {"text": text})
    return desk.ask(place, lambda api: act(api, desk.screen, deed, as_json=as_json))


@click.command()
@click.argument("problem", type=PROBLEM)
@click.option("--accept", "wish", flag_value=consenting.ACCEPT, help="Accept what it says.")
@click.option("--withdraw", "wish", flag_value=consenting.WITHDRAW, help="Take that back.")
@options.as_json
@options.place
@click.pass_obj
def consent(desk: Desk, /, place: Place, problem: str, *, wish: str | None, as_json: bool) -> int:
    """Show what a PROBLEM asks you to accept before you submit to it, and accept it.

    \b
    Example:
      warpboard consent matmul
      warpboard consent matmul --accept
    """
    return desk.ask(
        place,
        lambda api: consenting.consent(api, desk.screen, problem, wish or "", as_json=as_json),
    )


COMMANDS = (init, run_here, duel_here, consent, submit, cancel, delete, appeal)
