"""A signal ends a command at once, with its exit code and one line."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from shared.api.accounts import Preferences
from tests.cli.answers import ANSWER
from tests.cli.stand_in import respond_in_turn, run_stand_in
from tests.cli.test_creation import REFERENCE, RUNNING
from tests.support.api_examples import make_document
from tests.support.waits import eventually

pytestmark = pytest.mark.long

WITHIN_S = 20.0
WORDS = (sys.executable, "-m", "warpboard")
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
from warpboard.__main__ import main
sys.argv = ["warpboard", "status"]
main()
"""

# Python ignores an exception in a finalizer, and in some callbacks of its import system.
LOST_SIGNAL = """
import signal, sys

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            Finalized()

_, module, *words = sys.argv
sys.meta_path.insert(0, Finder())
from warpboard.__main__ import main
sys.argv = ["warpboard", *words]
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
            *(*WORDS, "submission", "show", "12", "--wait"),
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
        "submission 12 keeps running: "
        f"`warpboard submission show 12 --wait --url {standin.url}` waits again, "
        f"`warpboard submission cancel 12 --url {standin.url}` ends it"
    )
    assert last == line
    assert b"Traceback" not in err


async def test_a_signal_ends_the_wait_for_a_check_only(tmp_path: Path) -> None:
    file = tmp_path / "reference.py"
    file.write_text(REFERENCE)
    with run_stand_in(respond_in_turn((202, RUNNING))) as standin:
        process = await asyncio.create_subprocess_exec(
            *(*WORDS, "problem", "create", "sums", str(file)),
            *("--gpu", "H100", "--url", standin.url),
            stdout=PIPE,
            stderr=PIPE,
            cwd=tmp_path,
        )
        try:
            await eventually(lambda: standin.heard, WITHIN_S)
            process.send_signal(signal.SIGINT)
            out, err = await asyncio.wait_for(process.communicate(), WITHIN_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert (process.returncode, out) == (130, b"")
    *_, hint, last = err.decode().splitlines()
    assert hint == (
        "the check of sums keeps running: the same command shows its result, and publishes it "
        "without another check"
    )
    assert last == "warpboard: interrupted"


@pytest.mark.parametrize(("answer", "code"), [(b"\n", 1), (b"y\n", 0), (b"", 130)])
def test_a_question_is_answered_or_interrupted(tmp_path: Path, answer: bytes, code: int) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("#!POPCORN leaderboard m\n")
    receipts = {"submissions": [{"number": 12, "gpu": "H100"}]}
    refusal = {"detail": "no agent with H100 is alive: a submission waits", "code": "no_agent"}
    controller, terminal = os.openpty()
    say = respond_in_turn((409, refusal), (202, receipts))
    with run_stand_in(say) as standin:
        process = subprocess.Popen(
            (*WORDS, "submit", str(kernel), "--gpu", "H100", "--no-wait", "--url", standin.url),
            stdin=terminal,
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            cwd=tmp_path,
        )
        os.close(terminal)
        try:
            shown = read_until(controller, b"submit anyway? [y/N]: ")
            assert b"no agent with H100 is alive" in shown
            if answer:
                os.write(controller, answer)
            else:
                process.send_signal(signal.SIGINT)
            assert process.wait(WITHIN_S) == code
        finally:
            process.kill()
            process.wait()
            os.close(controller)
    flags = [b'name="waits_for_agent"' in request.body for request in standin.heard]
    assert flags == [True, *[False] * (code == 0)]


@pytest.mark.parametrize(("choice", "code"), [(b"MIT\n", 0), (b"mine\n", 1)])
def test_a_licence_is_asked_for_and_chosen_for_the_account(
    tmp_path: Path, choice: bytes, code: int
) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("#!POPCORN leaderboard m\n")
    receipts = {"submissions": [{"number": 12, "gpu": "H100"}]}
    refusal = {"detail": "choose a licence: MIT, or `none`", "code": "licence_missing"}
    preferences = make_document(Preferences, {"licence": "MIT"})
    controller, terminal = os.openpty()
    say = respond_in_turn((409, refusal), (200, preferences), (202, receipts))
    words = ("submit", str(kernel), "--gpu", "H100", "--no-wait")
    with run_stand_in(say) as standin:
        process = subprocess.Popen(
            (*WORDS, *words, "--url", standin.url),
            stdin=terminal,
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            cwd=tmp_path,
        )
        os.close(terminal)
        try:
            shown = read_until(controller, b"licence of your sources (default, none, MIT")
            assert b"choose a licence: MIT, or `none`" in shown
            os.write(controller, choice)
            assert process.wait(WITHIN_S) == code
        finally:
            process.kill()
            process.wait()
            os.close(controller)
    asking = b'name="needs_licence"'
    assert asking in standin.heard[0].body
    if code == 0:
        _, put, again = standin.heard
        assert (put.path, b"MIT" in put.body) == ("/v1/me/preferences", True)
        assert (again.path, asking in again.body) == ("/v1/submissions", False)
    else:
        assert len(standin.heard) == 1


def read_until(terminal: int, text: bytes) -> bytes:
    """Return what a terminal shows up to some text."""
    shown = b""
    while text not in shown:
        assert select.select([terminal], [], [], WITHIN_S)[0], shown
        shown += os.read(terminal, 4096)
    return shown


async def test_a_watch_ends_with_the_result_of_the_last_check(tmp_path: Path) -> None:
    task = tmp_path / "task.yml"
    task.write_text("nonsense: 1\n")
    process = await asyncio.create_subprocess_exec(
        *(*WORDS, "problem", "check", str(tmp_path), "--watch"),
        stdout=PIPE,
        stderr=PIPE,
    )
    assert process.stderr is not None
    line = b""
    try:
        for change in (True, False):
            line = await asyncio.wait_for(process.stderr.readuntil(b"Ctrl-C ends\n"), WITHIN_S)
            assert (f"added {tmp_path}/reference.py".encode() in line) is not change
            if change:
                (tmp_path / "reference.py").write_text("")
                task.write_text("nonsense: 12\n")
        process.send_signal(signal.SIGINT)
        out, _ = await asyncio.wait_for(process.communicate(), WITHIN_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 1
    assert f"changed {task}; added {tmp_path}/reference.py: checking again".encode() in line
    assert out.count(b"is not a problem yet") == 2


async def test_a_signal_while_it_still_loads_is_an_end_like_any_other() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LOADING), stdout=PIPE, stderr=PIPE
    )
    assert process.stdout is not None
    await asyncio.wait_for(process.stdout.readline(), WITHIN_S)
    process.send_signal(signal.SIGINT)
    out, err = await asyncio.wait_for(process.communicate(), WITHIN_S)
    assert (process.returncode, out, err) == (130, b"", b"warpboard: interrupted\n")


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("warpboard.terminal.program", "status"),
        ("warpboard.context", "status"),
        ("harness.entry", "up"),
    ],
)
def test_a_signal_while_exceptions_are_ignored_is_an_end_like_any_other(
    tmp_path: Path, module: str, command: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LOST_SIGNAL, module, command, "--folder", str(tmp_path / "home")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, err = process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert err.splitlines()[-1] == "warpboard: interrupted"
    assert not (tmp_path / "home").exists()
