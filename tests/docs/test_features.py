"""docs/features.md: every row has a test, every marker a row, and CI knows what passed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from docs.features import PAGE, find_tests, load_features, marked_rows, pages

from tests.support.features import find_unproven
from tests.support.platform import ROOT
from tests.support.reruns import REPORT, RunReport, read_report

PROJECT = """
import pytest

@pytest.mark.feature("N1")
@pytest.mark.parametrize("number", [1, 2])
def test_passes(number):
    pass

@pytest.mark.feature("N2", "N3")
def test_is_skipped():
    pytest.skip("nothing here")

@pytest.mark.feature("N4")
def test_fails():
    assert False
"""
CONFTEST = """
import os
from pathlib import Path
from tests.support.reruns import REPORT, OutputReport, report_features

def pytest_configure(config):
    config.addinivalue_line("markers", "feature: shows a row")
    if not hasattr(config, "workerinput"):
        plugin = OutputReport(Path(os.environ.pop(REPORT)), is_rerun=False)
        config.pluginmanager.register(plugin, "report")

def pytest_collection_modifyitems(items):
    report_features(items)
"""


def test_every_row_has_a_test_and_every_marker_a_row() -> None:
    rows, tests = set(load_features()), set(find_tests())
    assert not rows - tests, "these rows of docs/features.toml have no test with their marker"
    assert not tests - rows, "these markers name no row of docs/features.toml"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == pages()[PAGE], "run `make docs`"


def test_markers_are_read_without_running_the_test() -> None:
    assert list(marked_rows(PROJECT)) == [
        ("test_passes", "N1"),
        ("test_is_skipped", "N2"),
        ("test_is_skipped", "N3"),
        ("test_fails", "N4"),
    ]


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")])
def test_a_row_whose_tests_were_skipped_or_failed_is_not_shown(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_rows.py").write_text(PROJECT)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *workers],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            REPORT: str(tmp_path / "report.json"),
        },
        stdout=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    report = read_report(tmp_path / "report.json")
    assert report is not None
    assert report.features == {"N1"}
    assert list(find_unproven(["N1", "N2", "N3"], [report, RunReport(0, {}, {}, {"N3"})])) == [
        "N2: none of its tests passed"
    ]
