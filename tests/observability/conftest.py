"""A busy platform, and what watches it."""

import shutil
from collections.abc import Iterator

import pytest

from tests.observability.prometheus import Prometheus
from tests.observability.watching import Watch, watch_platform
from tests.support.platform import Running


@pytest.fixture(scope="session")
def has_prometheus() -> None:
    """Skips where there is no Prometheus or no node_exporter."""
    for program in ("prometheus", "prometheus-node-exporter"):
        if shutil.which(program) is None:
            pytest.skip(f"NOT RUN: no {program} here; apt-get install {program}")


@pytest.fixture(scope="package")
def watch(
    has_prometheus: None,  # noqa: ARG001
    simulated_platform: Running,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Watch]:
    """What watches a platform with a finished submission and a finished evaluation."""
    with watch_platform(simulated_platform, tmp_path_factory.mktemp("watch")) as watch:
        yield watch


@pytest.fixture(scope="package")
def prometheus(watch: Watch) -> Prometheus:
    """The Prometheus that watches the platform."""
    return watch.prometheus
