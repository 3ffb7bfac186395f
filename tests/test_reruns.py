"""What CI runs again: a test that passes alone is flaky and named, and nothing else is excused.

A small project with a Makefile of its own stands for ours; pytest and make are real.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.budgets import OVER_BUDGET
from tests.support.platform import ROOT
from tests.support.reruns import REPORT, RERUNS_MAX

CONFTEST = """
import os
from pathlib import Path
import pytest
from tests.support.reruns import REPORT, OutputReport

def pytest_configure(config):
    if report := os.environ.pop(REPORT, ""):
        plugin = OutputReport(Path(report), is_rerun=config.getoption("lf"))
        config.pluginmanager.register(plugin, "report")

def pytest_sessionfinish(session):
    session.exitstatus = int(os.environ.get("EXIT", session.exitstatus))
"""
MAKEFILE = """
test:
	{python} -m pytest -q $(if $(RERUN),--last-failed --last-failed-no-failures none)
"""
SOUND = "def test_sound():\n    pass\n"
FLAKY = """
from pathlib import Path

def test_flaky():
    ran = Path("ran")
    is_first = not ran.exists()
    ran.touch()
    print("the first time" if is_first else "the second time")
    assert not is_first
"""
FLAKY_FIXTURE = """
from pathlib import Path
import pytest

@pytest.fixture(scope="session")
def shared():
    ran = Path("ran")
    is_first = not ran.exists()
    ran.touch()
    print("starting")
    assert not is_first

"""
BROKEN = "def test_broken():\n    print('as ever')\n    assert False\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "Makefile").write_text(MAKEFILE.format(python=sys.executable))
    (tmp_path / "reports").mkdir()
    (tmp_path / "test_sound.py").write_text(SOUND)
    return tmp_path


def _run(project: Path, *command: str, **environ: str) -> tuple[int, str]:
    ended = subprocess.run(
        command,
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout


def run_tests(project: Path, **environ: str) -> None:
    environ |= {REPORT: str(project / "reports" / "test.json")}
    code, output = _run(project, "make", "test", **environ)
    assert code, output


def judge(project: Path) -> tuple[int, str]:
    return _run(project, sys.executable, "-m", "tests.support.reruns", "reports", "test")


def test_a_test_that_passes_alone_is_named_with_both_outputs(project: Path) -> None:
    (project / "test_flaky.py").write_text(FLAKY)
    run_tests(project)
    code, output = judge(project)
    assert code == 0, output
    ending = output.partition("\nflaky: test_flaky.py::test_flaky\n")[2]
    first, _, alone = ending.partition("when it ran alone:")
    assert "assert not True" in first
    assert "the first time" in first
    assert "the second time" in alone
    assert output.endswith("\n== flaky tests: 1\nflaky: test_flaky.py::test_flaky\n\n"), output


def test_a_test_that_fails_again_fails_the_run(project: Path) -> None:
    (project / "test_flaky.py").write_text(FLAKY)
    (project / "test_broken.py").write_text(BROKEN)
    run_tests(project)
    code, output = judge(project)
    assert code == 1
    assert "\n== flaky tests: 1\nflaky: test_flaky.py::test_flaky\n" in output
    assert output.endswith("failed twice: test_broken.py::test_broken\n"), output


def test_more_than_five_failed_tests_are_not_run_again(project: Path) -> None:
    broken = [BROKEN.replace("broken", f"broken_{at}") for at in range(RERUNS_MAX + 1)]
    (project / "test_broken.py").write_text("\n".join(broken))
    run_tests(project)
    code, output = judge(project)
    reason, *named = output.splitlines()
    assert (code, reason) == (1, "more than 5 tests failed in different ways: none was run again")
    tests = [f"test_broken.py::test_broken_{at}" for at in range(len(broken))]
    assert sorted(named) == [f"failed: {test}: assert False" for test in tests]


def test_a_fixture_that_fails_for_many_tests_is_one_failure(project: Path) -> None:
    tests = [f"def test_{at}(shared):\n    pass\n" for at in range(2 * RERUNS_MAX)]
    (project / "test_shared.py").write_text(FLAKY_FIXTURE + "\n".join(tests))
    run_tests(project)
    code, output = judge(project)
    assert code == 0, output
    assert f"\n== flaky tests: {2 * RERUNS_MAX}\n" in output


def test_a_run_that_also_failed_otherwise_is_not_excused(project: Path) -> None:
    (project / "test_flaky.py").write_text(FLAKY)
    run_tests(project, EXIT=str(OVER_BUDGET))
    code, output = judge(project)
    assert code == 1
    assert output.endswith("make test did not fail by its tests alone\n"), output


def test_a_run_that_left_no_report_is_not_excused(project: Path) -> None:
    code, output = judge(project)
    assert code == 1
    assert output.endswith("make test did not fail by its tests alone\n"), output
