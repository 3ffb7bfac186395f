"""What a run gives up before the author's code runs, observed by that code."""

import os

import pytest

from harness.sandbox import linux
from tests.support.harness import HONEST, REFERENCE, Host

ASKS = """
import os, socket
def tried(attempt):
    try:
        return repr(attempt())
    except OSError as error:
        return type(error).__name__
def check_implementation(data, output):
    return False, "; ".join([
        f"uid={os.getuid()}",
        "inet=" + tried(lambda: socket.socket(socket.AF_INET)),
        "unix=" + tried(lambda: socket.socket(socket.AF_UNIX)),
        "packets=" + tried(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
        "shadow=" + tried(lambda: open("/etc/shadow").read()[:4]),
        "environ=" + tried(lambda: open(f"/proc/{os.getppid()}/environ").read()[:4]),
        "memory=" + tried(lambda: open(f"/proc/{os.getppid()}/mem", "rb").read(0)),
        "compiled=" + str([
            one for one in os.listdir("/proc/self/fd")
            if os.path.lexists(f"/proc/self/fd/{one}")
            and os.readlink(f"/proc/self/fd/{one}").endswith("/compiled")
        ]),
        "asked=" + os.readlink("/proc/self/fd/0"),
        "schedules=" + tried(
            lambda: os.sched_setscheduler(os.getppid(), os.SCHED_BATCH, os.sched_param(0))
        ),
        "kill=" + tried(lambda: os.kill(os.getppid(), 0)),
        "capabilities=" + next(
            line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")
        ),
    ])
"""
# To read below the closed home that an interpreter lies in, and to schedule itself.
CAPABILITIES = 1 << linux.CAP_DAC_READ_SEARCH | 1 << linux.CAP_SYS_NICE


@pytest.fixture
def found(host: Host) -> dict[str, str]:
    """What the author's code found, by name."""
    host.files["reference.py"] = REFERENCE + ASKS
    message = host.run(HONEST).cases[0].message
    return dict(item.split("=", 1) for item in message.split("; "))


@pytest.mark.feature("N17")
def test_an_author_has_no_network(found: dict[str, str]) -> None:
    assert found["inet"] == "OSError"


def test_an_author_reaches_no_socket_in_the_machines_folders(found: dict[str, str]) -> None:
    assert found["unix"] == "OSError"
    assert found["packets"] == "PermissionError"


def test_an_author_does_not_see_into_the_supervisor(found: dict[str, str]) -> None:
    assert found["environ"] == "PermissionError"
    assert found["memory"] == "PermissionError"


def test_an_author_does_not_hear_what_is_asked_next(found: dict[str, str]) -> None:
    # It names what the reports of that run are known by.
    assert found["asked"] == "/dev/null"


def test_an_author_has_no_hand_on_what_others_runs_load(found: dict[str, str]) -> None:
    assert found["compiled"] == "[]"


@pytest.mark.skipif(os.getuid() != 0, reason="only root has an account to give up")
def test_an_author_is_an_account_that_owns_nothing(found: dict[str, str]) -> None:
    assert found["uid"] == "64000"
    assert found["kill"] == "PermissionError"
    assert int(found["capabilities"], 16) & ~CAPABILITIES == 0
    assert found["schedules"] == "PermissionError"
    assert found["shadow"] == "PermissionError"


def test_an_author_may_import_what_nobody_has_yet(host: Host) -> None:
    # torch does so on its own, late: use_deterministic_algorithms brings in a profiler.
    late = "\ndef check_implementation(data, output):\n    import cProfile\n    return True\n"
    host.files["reference.py"] = REFERENCE + late
    assert host.run(HONEST).verdict == "passed"
