"""A busy platform, and a real Prometheus that scrapes it."""

import shutil
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.observability.prometheus import JOBS, Prometheus
from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import ROOT, Running

SETTLE_S_MAX = 20
# Two looks at everything, so that a rate has something to be made of.
LOOKS = (
    'min(count_over_time(up{job=~"ingest|ranker|scheduler|gpu-agent|discord-edge|launcher"}[1m]))'
)


@pytest.fixture(scope="session")
def has_prometheus() -> None:
    """Skips where there is no Prometheus."""
    if shutil.which("prometheus") is None:
        pytest.skip("NOT RUN: no prometheus here; apt-get install prometheus")


@pytest.fixture(scope="package")
def prometheus(
    has_prometheus: None,  # noqa: ARG001
    simulated_platform: Running,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Prometheus]:
    """A Prometheus that has scraped a finished submission."""
    running = simulated_platform
    ports = running.state["ports"]
    targets = {job: f"127.0.0.1:{ports[job.replace('-', '_') + '_ops']}" for job in JOBS}
    server = Prometheus(tmp_path_factory.mktemp("prometheus") / "home", targets)
    try:
        server.start()
        _work(running)
        _settle(server)
        yield server
    finally:
        server.stop()


def _work(running: Running) -> None:
    add_problem(running.url, ROOT / "problems" / "identity")
    with Person(running.url, "ada") as ada:
        assert ada.end(ada.submit(HONEST))["outcome"] == "passed"
    _work_on_discord(running)


def _work_on_discord(running: Running) -> None:
    """Run one successful and one failing command."""
    rows = {row["name"]: row["address"] for row in running.state["processes"]}
    with httpx.Client(base_url=rows["discord-sim"], timeout=30) as http:
        _connected(http)
        bob = f"people/{http.post('people', json={'name': 'bob'}).json()['id']}"
        [lobby] = [item for item in http.get(f"{bob}/channels").json() if item["name"] == "lobby"]
        for command, options in (
            ("leaderboard list", {}),
            ("leaderboard get-submission", {"submission_id": 999}),
        ):
            slash_command = {"channel": lobby["id"], "command": command, "options": options}
            answer = http.post(f"{bob}/slash", json=slash_command).json()
            assert not answer["is_failed"], answer


def _connected(http: httpx.Client) -> None:
    until = time.monotonic() + SETTLE_S_MAX
    while not (
        (slash_command := http.get("state").json())["is_connected"] and slash_command["commands"]
    ):
        assert time.monotonic() < until, "the bot is not connected"
        http.get("changes", params={"after": slash_command["changes"]})


def _settle(prometheus: Prometheus) -> None:
    until = time.monotonic() + SETTLE_S_MAX
    while True:
        looks = prometheus.query(LOOKS)
        series = prometheus.query("warpboard_scheduler_log_events > 0")
        if looks and float(looks[0]["value"][1]) >= 4 and series:
            return
        assert time.monotonic() < until, f"Prometheus saw too little: {looks}"
        time.sleep(0.1)
