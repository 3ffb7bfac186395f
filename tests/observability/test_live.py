"""Every panel and alert is right about a running platform."""

import re

import pytest
from docs.alert_rules import AlertRule, alert_rules

from tests.observability.prometheus import JOBS, ROOT, Drawn, Prometheus, panels, selectors
from tests.observability.watching import Watch
from tests.support.people import HONEST, Person
from tests.support.platform import Running
from tests.support.processes import stopped

pytestmark = [pytest.mark.platform, pytest.mark.server, pytest.mark.long]


# Alerts on what this platform lacks, and why.
ABSENT = {"CertificateExpires": "its bus is on one machine, without certificates"}


def ids(panel: Drawn) -> str:
    """The name of a test of one query."""
    return f"{panel.dashboard}: {panel.title}"


@pytest.mark.parametrize("panel", panels(), ids=ids)
def test_every_panel_shows_something_or_says_when_not(prometheus: Prometheus, panel: Drawn) -> None:
    series = prometheus.query(panel.expr)
    assert series or panel.empty, panel.expr


@pytest.mark.parametrize("alert", alert_rules().values(), ids=lambda alert: alert.name)
def test_every_alert_looks_at_what_is_there(prometheus: Prometheus, alert: AlertRule) -> None:
    prometheus.query(alert.expr)
    looked_at = selectors(alert.expr)
    assert looked_at or alert.name == "Watchdog"
    absent = [item for item in looked_at if not prometheus.query(f"count({item})")]
    assert (absent == []) != (alert.name in ABSENT)


def test_dashboards_learn_where_the_pages_are(prometheus: Prometheus) -> None:
    [watchdog] = prometheus.query('ALERTS{alertname="Watchdog"}')
    assert watchdog["metric"]["guide"] == "http://127.0.0.1:8000/guide"


PAGE = ROOT / "docs" / "operating" / "metrics.md"


def named_on_page() -> set[str]:
    """The metrics of the docs page, with the shared ones named for each service."""
    text = PAGE.read_text()
    names_ = set()
    for part in text.split("\n## ")[1:]:
        names = re.findall(r"`([a-z_]+)(?:\{[a-z_,]+\})?`", part)
        title = part.splitlines()[0]
        services = (
            [title.replace("-", "_")]
            if title in (*JOBS, "backup")
            else [job.replace("-", "_") for job in JOBS]
        )
        names_ |= {f"warpboard_{service}_{name}" for service in services for name in names}
    return names_


@pytest.mark.feature("A10")
def test_every_metric_is_on_the_page_of_metrics(prometheus: Prometheus) -> None:
    ours = {name for name in prometheus.names() if name.startswith("warpboard_")}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in ours}
    assert sorted(families - named_on_page()) == []


def test_a_healthy_platform_wakes_nobody(prometheus: Prometheus) -> None:
    prometheus.until_only(("Watchdog", ""))


def test_alerts_fire_and_reach_people_when_agents_and_services_fall_silent(
    simulated_platform: Running, prometheus: Prometheus, watch: Watch
) -> None:
    running = simulated_platform
    with Person(running.url, "eve") as eve:
        with stopped(running.pid("gpu-agent")):
            eve.submit(HONEST)
            prometheus.until_firing(("NoAgentForWaitingJobs", ""), ("ServiceDown", "gpu-agent"))
            with stopped(running.pid("scheduler")):
                prometheus.until_firing(("ServiceDown", "scheduler"))
                if watch.alertmanager is not None:
                    watch.alertmanager.until_told("/pager", "ServiceDown")
        assert eve.end(eve.submit(HONEST))["is_over"]
