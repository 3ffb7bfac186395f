"""What an author's code leaves behind must not affect the run of another problem."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path

from harness.entry import Harness
from harness.messages import RunReport
from harness.sandbox.linux import descendants
from tests.support.harness import HONEST, REFERENCE, Host
from tests.support.processes import name_of
from tests.support.waits import eventually

DAEMON = """
import os, time
def check_implementation(data, output):
    heard, said = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if (left := os.fork()) == 0:
            time.sleep(60)
        os.write(said, str(left).encode())
        os._exit(0)
    return False, os.read(heard, 20).decode()
"""
HANGING = """
import os, time
def check_implementation(data, output):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            libc = __import__("ctypes").CDLL(None)
            libc.prctl(15, b"left-behind", 0, 0, 0)
            time.sleep(600)
        os._exit(0)
    time.sleep(600)
"""
# Less than what a supervisor waits for a zygote that does not end.
CLOSE_S_MAX = 30.0
# Whatever pipe a run has may lead to who asked for it.
FORGES = """
import os
def check_implementation(data, output):
    for one in range(3, 64):
        try:
            if os.readlink(f"/proc/self/fd/{{one}}").startswith("pipe:"):
                os.write(one, {line!r})
        except OSError:
            continue
    return True
"""
FORGED = json.dumps({"RunReport": asdict(RunReport("passed", "check", "forged", 0.1, ""))})


def test_nothing_that_an_authors_code_starts_outlives_its_run(host: Host) -> None:
    host.files["reference.py"] = REFERENCE + DAEMON
    left = int(host.run(HONEST).cases[0].message)
    host.files["reference.py"] = REFERENCE
    # The next run begins when nothing is left of the one before.
    assert host.run(HONEST).verdict == "passed"
    assert not Path(f"/proc/{left}").exists()


def test_no_authors_code_says_how_another_run_ends(host: Host) -> None:
    forged = f"{FORGED}\nhalf a line".encode()
    host.files["reference.py"] = REFERENCE + FORGES.format(line=forged)
    assert host.run(HONEST).reason == "every case passed"
    host.files["reference.py"] = REFERENCE
    report = host.run("def custom_kernel(data): pass")
    assert (report.verdict, report.failure_code) == ("wrong_answer", "")


def test_a_supervisor_ends_at_once_beside_what_an_author_left(host: Host) -> None:
    host.files["reference.py"] = REFERENCE + HANGING

    def find_left(pid: int) -> list[int]:
        return [found for found in descendants(pid) if name_of(found) == "left-behind"]

    async def close_in_a_run() -> list[int]:
        async with Harness() as harness:
            task = asyncio.create_task(harness.evaluate(host.request(HONEST), host.told))
            left = await eventually(lambda: harness.pid is not None and find_left(harness.pid))
            await asyncio.wait_for(harness.close(), CLOSE_S_MAX)
            await task
            return list(left or [])

    (left,) = asyncio.run(close_in_a_run())
    assert not Path(f"/proc/{left}").exists()
