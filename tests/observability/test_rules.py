"""The alerts and the dashboard are valid, and each alert has a helpful page."""

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.observability.prometheus import (
    ALERTS,
    DASHBOARD,
    DEPLOY,
    ROOT,
    Alert,
    alerts,
    panels,
    selectors,
)

PAGES = ROOT / "docs" / "operating"
# Whatever grows with the platform's use is no label.
UNBOUNDED = re.compile(r"submission_id|participant|account|\brun\b|\bjob_id\b|user")


def promtool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """The output of promtool; skips if it is not installed."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("NOT RUN: no promtool here; apt-get install prometheus")
    command = [program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_promtool_finds_nothing_wrong() -> None:
    checked = promtool("check", "config", str(DEPLOY / "prometheus" / "prometheus.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.long
def test_each_alert_fires_when_it_should_and_only_then() -> None:
    tests = DEPLOY / "prometheus" / "alerts.test.yml"
    ran = promtool("test", "rules", str(tests))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    text = tests.read_text()
    assert [alert.name for alert in alerts() if f"alertname: {alert.name}" not in text] == []


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)
def test_each_alert_has_a_page_that_names_it_and_says_what_to_do(alert: Alert) -> None:
    page = (ROOT / alert.page).read_text()
    assert alert.name in page
    for part in ("## What you see", "## Why", "## What to do"):
        assert part in page, f"{alert.page} has no {part!r}"


def test_the_index_names_every_page() -> None:
    index = (PAGES / "README.md").read_text()
    pages = {path.name for path in PAGES.glob("*.md")} - {"README.md"}
    assert [page for page in sorted(pages) if f"({page})" not in index] == []


def test_every_panel_has_a_name_of_its_own_and_our_data() -> None:
    panels_ = [
        panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"
    ]
    assert [title for title, n in Counter(item["title"] for item in panels_).items() if n > 1] == []
    assert {item["datasource"]["uid"] for item in panels_} == {"warpboard"}
    assert all(selectors(panel.expr) or "ALERTS" in panel.expr for panel in panels())


@pytest.mark.parametrize("path", [ALERTS, DASHBOARD], ids=lambda path: path.name)
def test_nothing_is_asked_by_what_grows_without_bound(path: Path) -> None:
    by = re.findall(r"\b(?:by|on) \(([^)]*)\)", path.read_text())
    assert [labels for labels in by if UNBOUNDED.search(labels)] == []
