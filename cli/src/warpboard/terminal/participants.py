"""What participants do: submit, look, run here."""

from typing import Any

import click

from warpboard.service import reading, running, submitting
from warpboard.service.deeds import Deed, act
from warpboard.terminal import options
from warpboard.terminal.desk import Desk, Place, run


@click.command()
@click.argument("file", type=options.FILE)
@click.option("--leaderboard", metavar="NAME", help="Else the file's #!POPCORN leaderboard line.")
@click.option("--gpu", "gpus", multiple=True, metavar="TYPE", help="GPU type; may be repeated.")
@options.mode("ranked")
@click.option(
    "--wait/--no-wait", "is_waiting", default=True, show_default=True, help="See it through."
)
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
    """
    wanted = submitting.Asked(**asked)
    return desk.ask(place, lambda api: submitting.submit(api, desk.disk, desk.screen, wanted))


@click.command()
@options.number
@click.option("--wait", "is_waiting", is_flag=True, help="Wait until it is over.")
@options.save
@options.timeout
@options.as_json
@options.place
@click.pass_obj
def submission(desk: Desk, /, place: Place, number: int, **asked: Any) -> int:
    """Show submission NUMBER whole: verdict, cases, history, what it printed.

    \b
    Example:
      warpboard submission 12 --save twelve
    """
    wait_s = asked["timeout_s"] if asked["is_waiting"] else None
    wanted = reading.Asked(number, wait_s, asked["save"], asked["as_json"])
    return desk.ask(place, lambda api: reading.submission(api, desk.disk, desk.screen, wanted))


@click.command()
@click.option("--problem", metavar="NAME", help="Only those for a problem.")
@click.option("--mine", is_flag=True, help="Only your own.")
@options.as_json
@options.place
@click.pass_obj
def submissions(desk: Desk, /, place: Place, problem: str | None, **asked: Any) -> int:
    """List the newest submissions.

    \b
    Example:
      warpboard submissions --problem matmul --mine
    """
    who = desk.participant(place) if asked["mine"] else None
    return desk.ask(
        place,
        lambda api: reading.submissions(api, desk.screen, problem, who, as_json=asked["as_json"]),
    )


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
@click.argument("text")
@options.as_json
@options.place
@click.pass_obj
def appeal(desk: Desk, /, place: Place, number: int, *, text: str, as_json: bool) -> int:
    """Ask to look again at what was decided about your submission NUMBER.

    \b
    Example:
      warpboard appeal 12 "it reads the input once; line 4 shows where"
    """
    deed = Deed("POST", ("submissions", number, "appeal"), {"text": text})
    return desk.ask(place, lambda api: act(api, desk.screen, deed, as_json=as_json))


@click.command(name="run")
@click.argument("file", type=options.FILE)
@click.option("--problem", type=options.FOLDER, required=True, help="The problem's directory.")
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


COMMANDS = (submit, submission, submissions, cancel, appeal, run_here)
