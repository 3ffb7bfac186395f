"""What a worker can do to the machine, tried by the worker itself with all walls."""

import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.sandbox import seccomp, walls
from harness.sandbox.box import WORKER_UID
from harness.sandbox.launcher import ZygoteLauncher
from harness.sandbox.probe import Isolation

from .boxes import BoxFactory

ABSTRACT = f"warpboard-test-{os.getpid()}"
CLONE = {"x86_64": 56, "aarch64": 220}
SECRETS = (
    "/etc/shadow",
    "/etc/passwd",
    "/home",
    "/sys",
    "/var",
    "/proc/1/environ",
    "/proc/1/mem",
    "/proc/1/fd",
    f"/proc/{os.getpid()}/environ",
    str(Path(__file__)),
    f"{walls.package_folder()}/sandbox/fork_entry.py",
    f"{walls.package_folder()}/supervisor/server.py",
)
SHUT = {"EACCES", "ENOENT", "EPERM", "ESRCH"}


@dataclass
class Inspected:
    """What the inspector printed, and on which machine."""

    isolation: Isolation
    facts: dict[str, Any]
    environment: dict[str, str]

    def needs(self, *walls: str) -> dict[str, Any]:
        """Return the facts, for a promise that one of these walls keeps."""
        missing = [one for one in self.isolation.missing if one.wall in walls]
        if not set(walls) & set(self.isolation.walls):
            pytest.skip(f"no {' or '.join(walls)}: {missing[0].reason}")
        return self.facts


@pytest.fixture(scope="module")
def inspected(launcher: ZygoteLauncher, isolation: Isolation, open_folder: Path) -> Inspected:
    """One run of the inspector for each launcher."""
    folder = open_folder / f"inspected-{launcher.way}"
    folder.mkdir()
    box_factory = BoxFactory(launcher, isolation, folder)
    home = box_factory.spec().home
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    path = str(folder / "ours" / "socket")
    wanted = {
        "read": SECRETS,
        "written": _places(folder),
        "abstract": ABSTRACT,
        "socket": path,
        "calls": _calls(),
        "clone": CLONE[platform.machine()],
        "pids": [os.getpid(), launcher.pid, bystander.pid],
    }
    environment = {"HOME": home, "WANTED": json.dumps(wanted), "LC_CTYPE": "C.UTF-8", "PWD": home}
    with listening(f"\0{ABSTRACT}", path) as packets:
        facts = box_factory.run_submission("inspector.py", environment=environment)
        box_factory.close()
        facts["packets"] = arrived(packets)
    bystander.communicate(b"\n", timeout=30)
    return Inspected(isolation, facts, environment)


@contextmanager
def listening(abstract: str, path: str) -> Iterator[socket.socket]:
    """Sockets open to everybody: one abstract, two in a folder, which comes last."""
    streams, packets = (socket.socket(socket.AF_UNIX) for _ in range(2)), socket.SOCK_DGRAM
    with contextlib.ExitStack() as stack:
        for one, name in zip(streams, (abstract, f"{path}.stream"), strict=True):
            stack.enter_context(one)
            one.bind(name)
            one.listen()
        last = stack.enter_context(socket.socket(socket.AF_UNIX, packets))
        last.bind(f"{path}.packets")
        for kind in ("stream", "packets"):
            Path(f"{path}.{kind}").chmod(0o777)
        yield last


def arrived(packets: socket.socket) -> int:
    """How many packets a socket received."""
    packets.setblocking(False)
    count = 0
    with contextlib.suppress(BlockingIOError):
        while packets.recv(16):
            count += 1
    return count


def _places(folder: Path) -> list[str]:
    """Folders where only we may write."""
    (folder / "ours").mkdir()
    (folder / "ours").chmod(0o777)
    kept = ("/", "/usr", "/etc", "/root", "/var/tmp", *walls.interpreter_folders())
    return [*kept, str(folder / "ours"), str(folder / "submission"), "/submission"]


def _calls() -> dict[str, int]:
    column = ("x86_64", "aarch64").index(platform.machine())
    every = {name: numbers[column] for name, numbers in seccomp.REFUSED.items()}
    return {name: number for name, number in every.items() if number >= 0}


def test_the_level_is_the_expected_one(isolation: Isolation) -> None:
    assert isolation.level == os.environ.get("TEST_LEVEL", isolation.level)


def test_the_worker_works_within_its_walls(inspected: Inspected) -> None:
    assert inspected.facts["works"]
    assert inspected.facts["scratch"] == "done"


def test_the_worker_is_another_user_in_no_group(inspected: Inspected) -> None:
    facts = inspected.needs("uid")
    assert facts["uids"] == [WORKER_UID] * 6
    assert facts["groups"] == []


def test_no_capability_is_left_or_to_be_had(inspected: Inspected) -> None:
    status = inspected.facts["status"]
    names = ("CapInh", "CapPrm", "CapEff", "CapAmb")
    assert {int(status[name], 16) for name in names} == {0}
    assert status["NoNewPrivs"] == "1"


def test_the_bounding_set_is_empty(inspected: Inspected) -> None:
    inspected.needs("uid")
    assert int(inspected.facts["status"]["CapBnd"], 16) == 0


def test_a_filter_is_loaded(inspected: Inspected) -> None:
    assert inspected.needs("seccomp")["status"]["Seccomp"] == "2"


def test_the_worker_holds_four_descriptors(inspected: Inspected) -> None:
    assert inspected.facts["descriptors"] == [0, 1, 2, 3]


def test_the_environment_is_what_was_given(inspected: Inspected) -> None:
    given = inspected.environment
    assert inspected.facts["environment"].items() <= given.items()
    assert inspected.facts["environment"]["WANTED"] == given["WANTED"]


def test_the_worker_lives_in_its_scratch_folder(inspected: Inspected) -> None:
    assert inspected.facts["cwd"] == inspected.environment["HOME"]
    assert len(inspected.facts["argv"]) == 1


def test_no_secret_of_the_machine_is_readable(inspected: Inspected) -> None:
    read = inspected.needs("namespaces", "landlock")["read"]
    assert {path: found for path, found in read.items() if found not in SHUT} == {}


def test_nothing_but_scratch_can_be_written(inspected: Inspected) -> None:
    written = inspected.needs("namespaces", "landlock")["written"]
    refused = {*SHUT, "EROFS"}
    assert {path: found for path, found in written.items() if found not in refused} == {}
    assert inspected.facts["core"] in refused


def test_no_socket_leads_out_of_the_box(inspected: Inspected) -> None:
    assert set(inspected.needs("seccomp")["sockets"].values()) == {"EAFNOSUPPORT"}


def test_abstract_sockets_of_the_machine_are_out_of_reach(inspected: Inspected) -> None:
    found = inspected.needs("namespaces", "landlock")["abstract"]
    assert found in {"ECONNREFUSED", "EPERM", "EAFNOSUPPORT"}


def test_sockets_in_folders_of_the_machine_are_out_of_reach(inspected: Inspected) -> None:
    """Landlock lets everybody connect, so the filter must refuse to create sockets."""
    facts = inspected.needs("namespaces", "seccomp")
    assert [way for way, found in facts["in a folder"].items() if found == "done"] == []
    assert facts["packets"] == 0


def test_every_call_on_the_list_is_refused(inspected: Inspected) -> None:
    calls = inspected.needs("seccomp")["calls"]
    assert {name: found for name, found in calls.items() if found != "EPERM"} == {}


def test_no_namespace_can_be_made(inspected: Inspected) -> None:
    assert inspected.needs("seccomp")["clone"] == "EPERM"
    assert inspected.facts["clone3"] == "ENOSYS"


def test_nobody_can_be_made_to_type(inspected: Inspected) -> None:
    assert inspected.needs("seccomp")["typing"] == "EPERM"


def test_other_processes_cannot_be_signalled(inspected: Inspected) -> None:
    found = inspected.needs("namespaces", "landlock", "uid")["signalled"]
    assert set(found.values()) <= {"EPERM", "ESRCH"}


def test_other_processes_cannot_be_seen(inspected: Inspected) -> None:
    facts = inspected.needs("namespaces", "landlock")
    assert set(facts["processes"]) <= {1, 2, 3, 4}


def test_the_box_has_a_name_and_numbers_of_its_own(inspected: Inspected) -> None:
    facts = inspected.needs("namespaces")
    if "namespaces" not in inspected.isolation.walls:
        pytest.skip("no namespaces")
    assert facts["hostname"] == "box"
    assert facts["pid"] <= 4


def test_two_workers_share_no_chance(
    launcher: ZygoteLauncher, isolation: Isolation, open_folder: Path
) -> None:
    folder = open_folder / f"chances-{launcher.way}"
    folder.mkdir()
    box_factory = BoxFactory(launcher, isolation, folder)
    first, second = (box_factory.run_submission("chances.py") for _ in range(2))
    box_factory.close()
    assert [one for one, other in zip(first, second, strict=True) if one == other] == []
