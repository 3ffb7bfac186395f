"""`warpboard server doctor` names everything that is wrong with a deployment at once."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.waits import find_free_ports
from warpboard.domain.deployment import find_contradictions, find_services
from warpboard.processes.doctor import find_full_disks, find_old_backup

DOCTOR_S_MAX = 100
KEY = "0123456789abcdef"
ONE_MACHINE = {
    "WARPBOARD_INGEST_LISTEN": "127.0.0.1:8000",
    "WARPBOARD_INGEST_OPS_LISTEN": "127.0.0.1:9101",
    "WARPBOARD_INGEST_RANKER_URL": "http://127.0.0.1:8001",
    "WARPBOARD_INGEST_READER_KEY": KEY,
    "WARPBOARD_INGEST_REPLICAS": "1",
    "WARPBOARD_RANKER_LISTEN": "127.0.0.1:8001",
    "WARPBOARD_RANKER_OPS_LISTEN": "127.0.0.1:9102",
    "WARPBOARD_RANKER_READER_KEY": KEY,
    "WARPBOARD_RANKER_REPLICAS": "1",
    "WARPBOARD_SCHEDULER_OPS_LISTEN": "127.0.0.1:9103",
}


def run_doctor(folder: Path, environ: dict[str, str], *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the document of the command, with these settings in a file."""
    file = folder / "settings.env"
    file.write_text("".join(f"{name}={value}\n" for name, value in environ.items()))
    command = [sys.executable, "-m", "warpboard", "server", "doctor", "--json", str(file), *options]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DOCTOR_S_MAX, check=False
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, document


def test_settings_that_fit_have_no_contradictions() -> None:
    assert find_contradictions(ONE_MACHINE) == []
    assert find_services(ONE_MACHINE) == ["ingest", "ranker", "scheduler"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("WARPBOARD_RANKER_READER_KEY", "another-key-of-16", "READER_KEY differ"),
        (
            "WARPBOARD_INGEST_RANKER_URL",
            "http://127.0.0.1:8005",
            "RANKER_URL=http://127.0.0.1:8001",
        ),
        ("WARPBOARD_INGEST_RANKER_URL", "http://10.0.0.2:8001", "RANKER_LISTEN=0.0.0.0:8001"),
        ("WARPBOARD_SCHEDULER_OPS_LISTEN", "127.0.0.1:9101", "listen on port 9101"),
        ("WARPBOARD_SCHEDULER_OPS_LISTEN", "0.0.0.0:8001", "listen on port 8001"),
        ("WARPBOARD_SCHEDULER_REPLICAS", "3", "set the same number everywhere"),
    ],
)
def test_a_contradiction_is_named_with_its_fix(name: str, value: str, expected: str) -> None:
    (finding,) = find_contradictions(ONE_MACHINE | {name: value})
    assert expected in finding.problem
    assert name in finding.problem
    assert KEY not in finding.problem


def test_two_services_cannot_share_credentials() -> None:
    names = ("WARPBOARD_INGEST_NATS_CREDENTIALS", "WARPBOARD_RANKER_NATS_CREDENTIALS")
    (finding,) = find_contradictions(dict.fromkeys(names, "/etc/warpboard/one.creds"))
    assert all(name in finding.problem for name in names)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (finding,) = find_full_disks({"WARPBOARD_GPU_AGENT_DATA": "/proc/1/agent"})
    assert "WARPBOARD_GPU_AGENT_DATA: /proc/1" in finding.problem
    assert not any(
        "not writable" in finding.problem
        for finding in find_full_disks({"WARPBOARD_GPU_AGENT_DATA": str(tmp_path / "new")})
    )


@pytest.mark.parametrize(("age_s", "is_old"), [(3600, False), (30 * 3600, True)])
def test_an_old_backup_is_named(tmp_path: Path, age_s: int, is_old: bool) -> None:
    file = tmp_path / "backup.prom"
    gauge = "warpboard_backup_completed_timestamp_seconds"
    file.write_text(f"# TYPE {gauge} gauge\n{gauge} {time.time() - age_s}\n")
    assert bool(list(find_old_backup(file))) is is_old
    (finding,) = find_old_backup(tmp_path / "none.prom")
    assert "does not say" in finding.problem


def test_every_problem_is_in_one_report(tmp_path: Path) -> None:
    (nothing,) = find_free_ports(1)
    environ = ONE_MACHINE | {
        "WARPBOARD_INGEST_NATS_URL": f"nats://127.0.0.1:{nothing}",
        "WARPBOARD_INGEST_POSTGRES_DSN": f"postgresql://nobody@127.0.0.1:{nothing}/warpboard",
        "WARPBOARD_INGEST_OPEN_MAX": "0",
        "WARPBOARD_RANKER_TIERS": "X9",
        "WARPBOARD_RANKER_READER_KEY": "short",
    }
    code, document = run_doctor(tmp_path, environ, "--backup-metric", str(tmp_path / "none.prom"))
    assert code == 1
    assert document["services"] == ["ingest", "ranker", "scheduler"]
    text = "\n".join(f"{item['service']}: {item['problem']}" for item in document["findings"])
    for expected in (
        "settings: WARPBOARD_INGEST_READER_KEY and WARPBOARD_RANKER_READER_KEY differ",
        "backup: ",
        f"ingest: WARPBOARD_INGEST_NATS_URL: no NATS server at 127.0.0.1:{nothing}",
        "ingest: WARPBOARD_INGEST_POSTGRES_DSN: cannot connect to Postgres",
        "ingest: WARPBOARD_INGEST_OPEN_MAX is 0: expected 1 to",
        "ranker: WARPBOARD_RANKER_POSTGRES_DSN is missing: set it, for example",
        "ranker: WARPBOARD_RANKER_TIERS",
        "ranker: WARPBOARD_RANKER_READER_KEY is invalid: expected at least 16",
        "scheduler: WARPBOARD_SCHEDULER_NATS_URL is missing",
    ):
        assert expected in text
