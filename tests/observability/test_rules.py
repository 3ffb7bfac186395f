"""The alerts and the dashboards are valid, agree, and each alert has a helpful page."""

import math
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from docs import alert_rules
from docs.alert_rules import RULES, AlertRule, Condition, parse_rules
from docs.dashboard_panels import DASHBOARDS, Dashboard
from docs.dashboards import pages, threshold_steps

from tests.observability.prometheus import DEPLOY, ROOT, panel_files, panels, selectors

PAGES = ROOT / "docs" / "operating"
# Whatever grows with the platform's use is no label.
UNBOUNDED = re.compile(r"submission_id|participant|account|\brun\b|\bjob_id\b|user")
ALERTS = list(alert_rules.alert_rules().values())
# No comparison says when these fire.
WITHOUT_CONDITION = {"ServiceAbsent", "Watchdog"}


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


@pytest.mark.feature("N19")
@pytest.mark.long
def test_each_alert_fires_when_it_should_and_only_then() -> None:
    files = sorted((DEPLOY / "prometheus").glob("alerts.*test.yml"))
    ran = promtool("test", "rules", *map(str, files))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    text = "".join(file.read_text() for file in files)
    assert [alert.name for alert in ALERTS if f"alertname: {alert.name}" not in text] == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_each_alert_has_a_page_that_names_it_and_says_what_to_do(alert: AlertRule) -> None:
    page = (ROOT / alert.page).read_text()
    assert alert.name in page
    for part in ("## What you see", "## Why", "## What to do"):
        assert part in page, f"{alert.page} has no {part!r}"


def test_the_index_names_every_page() -> None:
    index = (PAGES / "README.md").read_text()
    pages = {path.name for path in PAGES.glob("*.md")} - {"README.md"}
    assert [page for page in sorted(pages) if f"({page})" not in index] == []


def test_a_runbook_address_that_the_guide_does_not_serve_is_refused() -> None:
    text = RULES.read_text()
    wrong = text.replace("{{ $externalLabels.guide }}/docs/operating/no-agent", "no-agent.md")
    with pytest.raises(ValueError, match="NoAgentForWaitingJobs: runbook_url must begin with"):
        parse_rules(wrong)


def test_the_dashboards_are_those_of_the_tables_and_no_others() -> None:
    generated = pages()
    [folder] = {path.parent for path in generated}
    assert set(folder.glob("*")) == set(generated)
    for path, text in generated.items():
        assert path.read_text() == text, f"{path.name} is stale: run `make docs`"


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_every_panel_has_a_name_of_its_own_a_text_a_unit_and_our_data(
    dashboard: Dashboard,
) -> None:
    shown = panel_files(dashboard.name)
    titles = Counter((item["type"], item["title"]) for item in shown)
    assert [title for title, n in titles.items() if n > 1] == []
    assert {item["datasource"]["uid"] for item in shown} == {"warpboard"}
    assert all(item["description"] and item["fieldConfig"]["defaults"]["unit"] for item in shown)


def test_every_query_asks_for_our_metrics() -> None:
    assert all(selectors(panel.expr) for panel in panels())


def test_every_alert_has_a_panel_with_its_bound_and_its_page() -> None:
    shown = [panel for dashboard in DASHBOARDS for panel in panel_files(dashboard.name)]
    for alert in ALERTS:
        address = f"${{guide}}/{alert.page.removesuffix('.md')}"
        steps = [
            panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"]
            for panel in shown
            if address in {link["url"] for link in panel.get("links") or ()}
        ]
        missing = [
            condition
            for condition in alert.conditions
            if not any(math.isclose(step, condition.bound, abs_tol=1e-300) for step in steps)
        ]
        assert missing == [], alert.name
        assert bool(alert.conditions) != (alert.name in WITHOUT_CONDITION)


@pytest.mark.parametrize(
    ("comparison", "value", "is_red"),
    [
        (">", 5, False),
        (">", 5.001, True),
        (">=", 4.999, False),
        (">=", 5, True),
        ("<", 4.999, True),
        ("<", 5, False),
        ("<=", 5, True),
        ("<=", 5.001, False),
        ("==", 5, True),
        ("==", 6, False),
    ],
)
def test_a_step_is_red_exactly_where_the_alert_fires(
    comparison: str, value: float, is_red: bool
) -> None:
    steps = threshold_steps(Condition("up", comparison, 5), "red")
    # Grafana takes the last step that is not above the value.
    reached = [step.color for step in steps if step.value is None or step.value <= value]
    assert (reached[-1] == "red") == is_red


def test_another_bound_in_the_rules_is_another_condition() -> None:
    [condition] = parse_rules(RULES.read_text().replace("> 600", "> 601"))[
        "OldestJobWaits"
    ].conditions
    assert condition.bound == 601
    assert condition.expr.startswith("max by (gpu) (warpboard_scheduler_oldest_queued_age_seconds)")
    assert "unless on (gpu)" in condition.expr


@pytest.mark.parametrize("path", [RULES, *pages()], ids=lambda path: path.name)
def test_nothing_is_asked_by_what_grows_without_bound(path: Path) -> None:
    by = re.findall(r"\b(?:by|on) \(([^)]*)\)", path.read_text())
    assert [labels for labels in by if UNBOUNDED.search(labels)] == []
