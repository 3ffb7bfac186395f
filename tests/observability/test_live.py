"""Every panel and alert is right about a running platform."""

import re
import shutil

import pytest

from tests.observability.prometheus import (
    JOBS,
    ROOT,
    Alert,
    Panel,
    Prometheus,
    alerts,
    panels,
    selectors,
)
from tests.support.people import HONEST, Person
from tests.support.platform import Running
from tests.support.processes import stopped

pytestmark = [pytest.mark.platform, pytest.mark.server, pytest.mark.long]

# What only a machine with an NVIDIA driver can fill.
GPU_READINGS = (
    "warpboard_gpu_agent_gpu_use_ratio",
    "warpboard_gpu_agent_gpu_memory_used_bytes",
    "warpboard_gpu_agent_gpu_temperature_celsius",
    "warpboard_gpu_agent_gpu_clock_hertz",
)


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel.title)
def test_every_panel_shows_something(prometheus: Prometheus, panel: Panel) -> None:
    series = prometheus.query(panel.expr)
    is_of_a_gpu = any(name in panel.expr for name in GPU_READINGS)
    if is_of_a_gpu and not series and shutil.which("nvidia-smi") is None:
        pytest.skip("NOT SHOWN: no NVIDIA driver here, so an agent has no GPU to read")
    assert series, panel.expr


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)
def test_every_alert_looks_at_what_is_there(prometheus: Prometheus, alert: Alert) -> None:
    prometheus.query(alert.expr)
    looked_at = selectors(alert.expr)
    assert looked_at or alert.name == "Watchdog"
    assert [item for item in looked_at if not prometheus.query(f"count({item})")] == []


PAGE = ROOT / "docs" / "operating" / "metrics.md"


def named_on_page() -> set[str]:
    """The metrics of the docs page, with the shared ones named for each service."""
    text = PAGE.read_text()
    names_ = set()
    for part in text.split("\n## ")[1:]:
        names = re.findall(r"`([a-z_]+)(?:\{[a-z_,]+\})?`", part)
        title = part.splitlines()[0]
        services = (
            [title.replace("-", "_")] if title in JOBS else [job.replace("-", "_") for job in JOBS]
        )
        names_ |= {f"warpboard_{service}_{name}" for service in services for name in names}
    return names_


def test_every_metric_is_on_the_page_of_metrics(prometheus: Prometheus) -> None:
    ours = {name for name in prometheus.names() if name.startswith("warpboard_")}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in ours}
    assert sorted(families - named_on_page()) == []


def test_a_healthy_platform_wakes_nobody(prometheus: Prometheus) -> None:
    prometheus.until_only(("Watchdog", ""))


def test_alerts_fire_when_agents_and_services_fall_silent(
    simulated_platform: Running, prometheus: Prometheus
) -> None:
    running = simulated_platform
    with Person(running.url, "eve") as eve:
        with stopped(running.pid("gpu-agent")):
            eve.submit(HONEST)
            prometheus.until_firing(("NoAgentForWaitingJobs", ""), ("ServiceDown", "gpu-agent"))
            with stopped(running.pid("scheduler")):
                prometheus.until_firing(("ServiceDown", "scheduler"))
        assert eve.end(eve.submit(HONEST))["is_over"]
