"""A signal ends a command at once, with its exit code and one line."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.cli.answers import ANSWER
from tests.cli.stand_in import respond_in_turn, run_stand_in
from tests.support.waits import eventually

WITHIN_S = 20.0
LOADING = """
import sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "warpboard.context":
            print("loading", flush=True)
            # A signal that comes just before a sleep begins does not end it: so many short ones.
            for _ in range(2000):
                time.sleep(0.01)

sys.meta_path.insert(0, Slow())
from warpboard.entry import main
sys.argv = ["warpboard", "status"]
main()
"""


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGINT, 130, "warpboard: interrupted"),
        (signal.SIGTERM, 143, "warpboard: stopped by SIGTERM"),
    ],
)
async def test_a_signal_ends_a_wait(
    tmp_path: Path, number: signal.Signals, code: int, line: str
) -> None:
    with run_stand_in(respond_in_turn((200, ANSWER))) as standin:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "warpboard", "submission", "show", "12", "--wait"),
            *("--url", standin.url),
            stdout=PIPE,
            stderr=PIPE,
            cwd=tmp_path,
        )
        try:
            await eventually(lambda: standin.heard, WITHIN_S)
            process.send_signal(number)
            out, err = await asyncio.wait_for(process.communicate(), WITHIN_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == code
    assert out == b""
    *_, goes_on, last = err.decode().splitlines()
    assert goes_on == (
        "submission 12 goes on: `warpboard submission show 12 --wait` waits again, "
        "`warpboard submission cancel 12` ends it"
    )
    assert last == line
    assert b"Traceback" not in err


async def test_a_signal_while_it_still_loads_is_an_end_like_any_other() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LOADING), stdout=PIPE, stderr=PIPE
    )
    assert process.stdout is not None
    await asyncio.wait_for(process.stdout.readline(), WITHIN_S)
    process.send_signal(signal.SIGINT)
    out, err = await asyncio.wait_for(process.communicate(), WITHIN_S)
    assert (process.returncode, out, err) == (130, b"", b"warpboard: interrupted\n")
