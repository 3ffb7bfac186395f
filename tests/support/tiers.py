"""What a test may start, told by its markers, and which tests share a worker.

A marker follows from the fixtures that a test asks for; a test that starts such a process by
itself names the marker. Whatever a test starts without the marker fails that test.
"""

import os
import subprocess
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from functools import cache, wraps
from os import PathLike
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# The fixtures that start something, by the marker of each test that asks for one.
FIXTURES = {
    "server": {"shared_nats", "own_nats", "postgres_server_dsn", "cluster", "servers"},
    "box": {"warm", "harness", "supervisors", "zygote", "launcher", "inspector", "isolation"},
    "platform": {
        *("platform", "platform_to_kill", "own_platform", "edge_platform", "running"),
        "simulated_platform",
    },
}
# What the command line of a process contains, by the marker of each test that starts one.
PROCESSES = {
    "server": ("nats-server", "bin/postgres", "bin/initdb"),
    "box": ("harness.supervisor", "harness.zygote", "bwrap"),
    "platform": (
        *("warpboard up", "warpboard demo"),
        *("tests.support.strict up", "tests.support.versions up"),
        "tests.support.clocked_platform up",
    ),
}
# A platform starts servers and boxes, too.
INCLUDED = {"platform": {"platform", "server", "box"}}
# Files whose tests share what is slow to start, so one worker runs them all. Groups begin first, in
# the order of their longest limits, because what takes longest must not begin last.
GROUPS = {
    "pages": ("tests/docs/*",),
    "agent": ("tests/gpu_agent/*",),
    "harness": (
        "tests/harness/*",
        "tests/cheats/test_corpus.py",
        "tests/cheats/test_model_seeds.py",
    ),
    "cheats": ("tests/cheats/test_fuzz.py", "tests/cheats/test_mutations.py"),
    # A harness of its own, for one worker would need as long for both as all others for the rest.
    "problems": (
        "tests/problems/test_check*",
        "tests/problems/test_flashinfer.py",
        "tests/problems/test_native.py",
        "tests/problems/test_public_sets.py",
        "tests/problems/test_reference_form.py",
        "tests/problems/test_sol_execbench.py",
        "tests/problems/test_templates.py",
    ),
    "sandbox": ("tests/sandbox/*",),
    "torch": (
        "tests/devices/*",
        "tests/toolchains/test_native.py",
        "tests/toolchains/test_nvrtc.py",
        "tests/toolchains/test_profiling.py",
    ),
    "kills": (
        "tests/contract_popcorn/test_point_11_kills.py",
        "tests/system/test_check_kills.py",
        "tests/system/test_evaluation_kills.py",
        "tests/system/test_harness_kills.py",
        "tests/system/test_interrupts.py",
        "tests/system/test_kills.py",
        "tests/system/test_many_clients.py",
        "tests/system/test_outage.py",
        "tests/system/test_postgres_faults.py",
        "tests/system/test_streams.py",
        "tests/system/test_two_ingests.py",
    ),
    "platform": (
        "tests/access/*",
        "tests/cheats/test_webhooks_to_loopback.py",
        "tests/contract_openapi/test_document.py",
        "tests/contract_popcorn/*",
        "tests/cli/test_evaluate_remote.py",
        "tests/cli/test_mcp.py",
        "tests/system/test_appends.py",
        "tests/system/test_bad_kernels.py",
        "tests/system/test_baselines.py",
        "tests/system/test_client_package.py",
        "tests/system/test_evaluations.py",
        "tests/system/test_first_light.py",
        "tests/system/test_offers.py",
        "tests/system/test_operators.py",
        "tests/system/test_problem_checks.py",
        "tests/system/test_several_files.py",
        "tests/system/test_site.py",
        "tests/test_first_hour.py",
    ),
    "simulated": (
        "tests/cheats/test_local_webhooks.py",
        "tests/discord/test_up.py",
        "tests/observability/test_live.py",
        "tests/system/test_fails_once.py",
    ),
    "bot": ("tests/discord/test_edge_*", "tests/discord/test_edge.py"),
}


def add_markers(items: Iterable[pytest.Item]) -> None:
    """Mark each test with what its fixtures start."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        for marker, names in FIXTURES.items():
            if fixtures & names:
                item.add_marker(marker)


def missing_marker(command: Sequence[str], markers: set[str]) -> str | None:
    """Return the marker that a test needs to start this command, if it lacks it.

    >>> missing_marker(["/usr/bin/nats-server", "-c", "x"], {"box"})
    'server'
    >>> missing_marker(["python", "-m", "warpboard", "up"], {"platform"})
    >>> missing_marker(["git", "init"], set())
    """
    allowed = set[str]().union(*(INCLUDED.get(marker, {marker}) for marker in markers))
    text = " ".join(command)
    for marker, words in PROCESSES.items():
        if marker not in allowed and any(word in text for word in words):
            return marker
    return None


class Guard:
    """Fails a test that starts a process without the marker for it."""

    def __init__(self) -> None:
        self._item: pytest.Item | None = None
        start = subprocess.Popen.__init__

        @wraps(start)
        def start_if_marked(popen: Any, args: Any, *rest: Any, **options: Any) -> None:
            self._check(args)
            start(popen, args, *rest, **options)

        # An audit hook would see the same, but is called millions of times in a run.
        subprocess.Popen.__init__ = start_if_marked  # type: ignore[assignment,method-assign]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        """Remember which test runs."""
        self._item = item
        try:
            return (yield)
        finally:
            self._item = None

    def _check(self, args: Any) -> None:
        if self._item is None:
            return
        command = [args] if isinstance(args, str | bytes | PathLike) else args
        words = [os.fsdecode(word) for word in command]
        marker = missing_marker(words, {marker.name for marker in self._item.iter_markers()})
        if marker is not None:
            message = f"{self._item.nodeid} starts {words[:6]} and lacks pytest.mark.{marker}"
            raise AssertionError(message)


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each worker whole files, and all files of a group to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        """Give a worker its next files when its last test begins, not two tests earlier.

        A test may take minutes, in which another worker may become idle. The last test waits until
        its worker knows what comes next.
        """
        if not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)


def file_of(nodeid: str) -> str:
    """Return the path of a test's file."""
    return nodeid.partition("::")[0]


def scope_of(nodeid: str) -> str:
    """Return what one worker runs whole: the group of a test's file, or the file.

    >>> scope_of("tests/sandbox/test_box.py::test_x"), scope_of("tests/test_tidy.py::test_x")
    ('sandbox', 'tests/test_tidy.py')
    """
    return _scope_of_file(file_of(nodeid))


@cache
def _scope_of_file(file: str) -> str:
    for group, patterns in GROUPS.items():
        if any(fnmatch(file, pattern) for pattern in patterns):
            return group
    return file
