"""What an author's code leaves behind must not affect the run of another problem."""

import json
from dataclasses import asdict
from pathlib import Path

from harness.messages import RunReport
from tests.support.harness import HONEST, REFERENCE, Host

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
