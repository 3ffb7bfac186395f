"""A check of a reference whose agent is killed."""

import os
import signal
import time

import pytest

from tests.support.people import Person
from tests.support.platform import Running
from tests.support.waits import until
from tests.system.test_problem_checks import REFERENCE, WITHIN_S, ended, read, request

pytestmark = [pytest.mark.platform, pytest.mark.server, pytest.mark.long]


def test_a_check_survives_the_kill_of_its_agent(platform_to_kill: Running) -> None:
    slow = REFERENCE.replace(b"    return 2 *", b"    import time; time.sleep(0.2)\n    return 2 *")
    with Person(platform_to_kill.url, "cora") as cora:
        asked = request(cora, "killed", slow)
        until(lambda: read(cora, asked["id"])["state"] == "running", WITHIN_S)
        pid = platform_to_kill.pid("gpu-agent")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        found = ended(cora, asked["id"])
        assert found["state"] == "clean", (found, time.monotonic() - began)
