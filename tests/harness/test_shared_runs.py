"""Test runs of one problem may share the process that loads it, and nothing of each other."""

import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness import HONEST, REFERENCE, Host

pytestmark = pytest.mark.box

# Its check tells the process that judges.
TELLING = (
    REFERENCE.replace("def check_implementation(", "def unused(")
    + """

def check_implementation(data, output):
    import os
    return False, f"judged by {os.getpid()}"
"""
)
CRASHING = "import os\n\n\ndef custom_kernel(data):\n    os._exit(3)\n"
# It looks for the submission before it where a submission finds its own file.
PEEKING = """
from pathlib import Path


def custom_kernel(data):
    own = Path(__file__)
    others = [path for path in own.parents[1].glob("*/*.py") if path != own]
    texts = [path.read_text(errors="replace") for path in (*others, *own.parent.rglob("*"))]
    assert not any("SECRET" + " = 1" in text for text in texts), others
    data[1].copy_(data[0])
    return data[1]
"""


@pytest.fixture
def telling(host: Host) -> Host:
    """A host whose problem tells which process judges."""
    host.files = {"reference.py": TELLING}
    return host


def judge(host: Host, source: str = HONEST, **more: Any) -> str:
    """Return which process judged a shared run of this source."""
    options: dict[str, Any] = {"is_shared": True, "suffix": ".py"} | more
    report = host.run(source, **options)
    assert report.verdict == "wrong_answer", report
    message = report.cases[0].message
    assert "judged by" in message
    return message


def test_runs_of_one_problem_share_a_process(telling: Host) -> None:
    first = judge(telling)
    assert judge(telling) == first
    assert judge(telling, HONEST + "\n") == first


def test_a_process_is_kept_that_says_late_that_it_waits(telling: Host) -> None:
    slow = """
import sys, time

preparation = sys.modules["harness.supervisor.run"].Preparation
can_follow = preparation.can_follow


def can_follow_late(self, report):
    time.sleep(0.5)
    return can_follow(self, report)


preparation.can_follow = can_follow_late
"""
    telling.files = {"reference.py": TELLING + slow}
    first = judge(telling)
    # This request comes while the process has reported, and before it waits.
    assert judge(telling) == first


def test_a_run_that_does_not_share_has_its_own_process(telling: Host) -> None:
    first = judge(telling)
    assert judge(telling, is_shared=False) != first


def test_another_problem_has_another_process(telling: Host) -> None:
    first = judge(telling)
    telling.more = {"size": 5}
    assert judge(telling) != first


def test_a_run_with_a_key_has_its_own_process(telling: Host) -> None:
    first = judge(telling)
    assert judge(telling, key="ab" * 32) != first


def test_a_source_that_is_built_has_its_own_process(telling: Host) -> None:
    first = judge(telling)
    assert judge(telling, "# torch.utils.cpp_extension.load_inline\n" + HONEST) != first


@pytest.mark.parametrize("mode", ["benchmark", "ranked"])
def test_a_timed_run_has_its_own_process(telling: Host, mode: str) -> None:
    first = judge(telling)
    report = telling.run(HONEST, mode, suffix=".py", is_shared=True)
    assert report.cases[0].message != first


def test_each_shared_run_gets_its_own_verdict(host: Host) -> None:
    verdicts = [
        host.run(source, suffix=".py", is_shared=True).verdict
        for source in (HONEST, CRASHING, HONEST, "def custom_kernel(data):\n    return 1\n", HONEST)
    ]
    assert verdicts[::2] == ["passed"] * 3
    assert verdicts[1] == "crashed"
    assert verdicts[3] not in ("passed", "", "crashed")


def test_a_shared_run_sees_no_file_of_the_one_before(host: Host) -> None:
    for source in ("SECRET = 1\n" + HONEST, PEEKING):
        report = host.run(source, suffix=".py", is_shared=True)
        assert report.verdict == "passed", report


def test_a_shared_run_leaves_no_records(host: Host) -> None:
    for _ in range(2):
        assert host.run(HONEST, suffix=".py", is_shared=True).verdict == "passed"
        assert not list(host.out.iterdir())
        host.out.rmdir()


def test_every_shared_run_has_inputs_of_its_own(host: Host) -> None:
    reports = [host.run(HONEST, suffix=".py", is_shared=True) for _ in range(3)]
    assert len({report.key for report in reports}) == len(reports)


def test_a_process_that_is_killed_while_it_waits_is_replaced(telling: Host) -> None:
    first = judge(telling)
    pidfd = os.pidfd_open(int(first.rpartition(" ")[2]))
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    assert select.select([pidfd], [], [], 10)[0]
    os.close(pidfd)
    assert judge(telling) != first


def test_an_authors_code_that_never_ends_stops_its_run_alone(host: Host) -> None:
    host.budgets_s = host.budgets_s | {"author": 1.0}
    assert host.run(HONEST, suffix=".py", is_shared=True).verdict == "passed"
    begin = "    matrix, out = data\n"
    endless = REFERENCE.replace(begin, f"{begin}    while matrix.numel() == 64:\n        pass\n")
    host.files = {"reference.py": endless}
    report = host.run(HONEST, suffix=".py", is_shared=True)
    assert report.failure_code == "problem_fault", report
    host.files = {"reference.py": REFERENCE}
    assert host.run(HONEST, suffix=".py", is_shared=True).verdict == "passed"


def test_nothing_of_a_shared_process_is_left_when_the_harness_ends(telling: Host) -> None:
    pid = int(judge(telling).rpartition(" ")[2])
    process = Path(f"/proc/{pid}")
    folder = (process / "cwd").readlink()
    telling.warm.runner.run(telling.warm.harness.close())
    assert not process.exists()
    assert not folder.exists()
