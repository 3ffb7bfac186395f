"""One flaky test does not fail CI: what failed in a run is run once more, alone, and named.

As a plugin of pytest, `OutputReport` writes how a run ended and what its tests printed. As a
program, `python -m tests.support.reruns FOLDER TARGET...` reads the reports of these targets of the
Makefile, which failed, and runs their failed tests again: `make TARGET RERUN=1`, which is
`--last-failed` without workers. A test that passes then is printed as flaky, with both outputs.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

# Names the file that `OutputReport` writes.
REPORT = "WARPBOARD_TEST_REPORT"
# The marker of tests that show a row of docs/features.md.
FEATURE = "feature"
RERUNS_MAX = 5
RERUN_S_MAX = 1200.0
OUTPUT_CHARS_MAX = 8000


class RunReport(msgspec.Struct):
    """How a run of pytest ended, and the outputs of its tests by their ids.

    The outputs of tests that passed are those of a rerun only. `features` has the rows of
    docs/features.md that tests which passed are marked with.
    """

    exit_code: int
    failed: dict[str, str]
    passed: dict[str, str]
    features: set[str] = set()


def report_features(items: Iterable[pytest.Item]) -> None:
    """Let the reports of each test say which features it shows, also those of another process."""
    for item in items:
        for marker in item.iter_markers(FEATURE):
            item.user_properties += [(FEATURE, row) for row in marker.args]


class OutputReport:
    """Writes the report of a run into a file."""

    def __init__(self, path: Path, *, is_rerun: bool) -> None:
        self._path = path
        self._is_rerun = is_rerun
        self._report = RunReport(0, {}, {})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the output of each phase that failed, and of a rerun that passed."""
        failed, passed = self._report.failed, self._report.passed
        if report.failed:
            failed[report.nodeid] = failed.get(report.nodeid, "") + _output(report)
        elif report.passed and report.when == "call":
            rows = (str(row) for name, row in report.user_properties if name == FEATURE)
            self._report.features.update(rows)
        elif self._is_rerun and report.passed and report.when == "teardown":
            passed[report.nodeid] = _output(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Write the report after all other plugins, which may change the exit code."""
        result = yield
        self._report.exit_code = int(session.exitstatus)
        self._path.write_bytes(msgspec.json.encode(self._report))
        return result


def _output(report: pytest.TestReport) -> str:
    sections = [f"{title}:\n{text}" for title, text in report.sections]
    return "\n".join([report.longreprtext, *sections])[-OUTPUT_CHARS_MAX:].strip() + "\n"


def _first_error(output: str) -> str:
    """Return the first line that pytest marks as an error, else the last of the output."""
    lines = output.strip().splitlines() or [""]
    return next((line[1:].strip() for line in lines if line.startswith("E ")), lines[-1])


def read_report(path: Path) -> RunReport | None:
    """Return the report of a run; None if it ended before it could write one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunReport)
    except FileNotFoundError:
        return None


def rerun(folder: Path, target: str) -> RunReport | None:
    """Run the failed tests of a target again, and return the report."""
    path = folder / f"{target}.rerun.json"
    environ = os.environ | {REPORT: str(path)}
    subprocess.run(
        ["make", "--no-print-directory", target, "RERUN=1"],  # noqa: S607  (that of the path)
        env=environ,
        timeout=RERUN_S_MAX,
        check=False,
    )
    return read_report(path)


def judge(folder: Path, targets: Sequence[str]) -> Iterator[str]:
    """Rerun what failed in these targets, print it, and yield why the run as a whole fails."""
    reports = {target: read_report(folder / f"{target}.json") for target in targets}
    # A fixture that fails is one failure, however many tests share it.
    failures = {
        output: test
        for report in reports.values()
        if report
        for test, output in report.failed.items()
    }
    if len(failures) > RERUNS_MAX:
        yield f"more than {RERUNS_MAX} tests failed in different ways: none was run again"
        yield from (f"failed: {test}: {_first_error(it)}" for it, test in failures.items())
        return
    flaky: list[str] = []
    for target, report in reports.items():
        if report is None or report.exit_code != pytest.ExitCode.TESTS_FAILED:
            yield f"make {target} did not fail by its tests alone"
            continue
        again = rerun(folder, target)
        for test, output in report.failed.items():
            passed = again.passed.get(test) if again and test not in again.failed else None
            if passed is None:
                yield f"failed twice: {test}"
                continue
            flaky.append(f"flaky: {test}")
            print(f"\n{flaky[-1]}\nwhen it failed:\n{output}\nwhen it ran alone:\n{passed}")  # noqa: T201
    print(f"\n== flaky tests: {len(flaky)}", *flaky, sep="\n")  # noqa: T201


def main(folder: str, *targets: str) -> int:
    """Return 0 if every failed test passed when it ran alone."""
    reasons = list(judge(Path(folder), targets))
    print(*reasons, sep="\n")  # noqa: T201
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
