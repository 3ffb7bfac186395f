"""A busy platform, and a real Prometheus with its exporter and Alertmanager that watches it."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.observability.alertmanager import Alertmanager
from tests.observability.prometheus import JOBS, NODE, Prometheus
from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import ROOT, Running
from tests.support.receiver import run_receiver
from tests.support.waits import free_port

SETTLE_S_MAX = 20
# Two looks at everything, so that a rate has something to be made of.
LOOKS = (
    'min(count_over_time(up{job=~"ingest|ranker|scheduler|gpu-agent|discord-edge|launcher"}[1m]))'
)
# What the last step of the work counts.
LAST = "warpboard_discord_edge_interactions_failed_total"


class Watch(NamedTuple):
    """What watches the platform; without its package there is no Alertmanager."""

    prometheus: Prometheus
    alertmanager: Alertmanager | None


@contextmanager
def watch_platform(platform: Running, folder: Path) -> Iterator[Watch]:
    """Watch a platform with a simulated Discord, on which something was done of each kind."""
    folder.mkdir(exist_ok=True)
    ports = platform.state["ports"]
    targets = {job: f"127.0.0.1:{ports[job.replace('-', '_') + '_ops']}" for job in JOBS}
    with ExitStack() as stack:
        targets[NODE] = _start_exporter(stack, folder / "textfile")
        manager = _start_alertmanager(stack, folder / "alertmanager")
        server = Prometheus(folder / "prometheus", targets, manager.address if manager else "")
        stack.callback(server.stop)
        server.start()
        _work(platform)
        _settle(server)
        yield Watch(server, manager)


def _start_exporter(stack: ExitStack, folder: Path) -> str:
    """Start node_exporter with the time of a backup, and return its address."""
    program = shutil.which("prometheus-node-exporter")
    assert program is not None, "ask for it before"
    folder.mkdir()
    (folder / "backup.prom").write_text(
        f"warpboard_backup_completed_timestamp_seconds {time.time():.0f}\n"
    )
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [program, f"--web.listen-address={address}", f"--collector.textfile.directory={folder}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(process.wait, 10)
    stack.callback(process.terminate)
    return address


def _start_alertmanager(stack: ExitStack, folder: Path) -> Alertmanager | None:
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        return None
    manager = Alertmanager(program, folder, stack.enter_context(run_receiver()))
    stack.callback(manager.stop)
    return manager.start()


def _work(running: Running) -> None:
    add_problem(running.url, ROOT / "problems" / "identity")
    with Person(running.url, "ada") as ada:
        assert ada.end(ada.submit(HONEST))["outcome"] == "passed"
        _evaluate(ada)
    _work_on_discord(running)


def _evaluate(person: Person) -> None:
    """Evaluate two sources, and wait for their end."""
    items = [{"id": str(place), "source": f"{HONEST}\n# {place}\n"} for place in range(2)]
    body = {"problem": "identity", "gpu": "CPU", "items": items}
    accepted = person.http.post("/v1/evaluations", json=body)
    assert accepted.status_code == 202, accepted.text
    results = person.http.get(f"/v1/evaluations/{accepted.json()['id']}/results", timeout=90)
    assert [line for line in results.text.splitlines() if '"passed"' in line]


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
        last = prometheus.query(f"min(count_over_time({LAST}[1m])) >= 3")
        if looks and float(looks[0]["value"][1]) >= 4 and series and last:
            return
        assert time.monotonic() < until, f"Prometheus saw too little: {looks} {last}"
        time.sleep(0.1)
