"""What the local platform's services are told, which ports they get, how often they come back."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from shared.errors import Failed
from shared.servers.postgresql import ROLES
from tests.support.log_lines import collect_warnings
from warpboard.processes.child import DEATHS_MAX, LONG_PAUSE_S, Child
from warpboard.processes.services import PlatformConfig, PortClaims, choose_ports, local_services


class Dead:
    """What died before anybody looked."""

    name = "ranker"
    address = ""
    process = None

    def __init__(self, log: Path) -> None:
        self.log = log


def test_what_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("the last words")
    child = Child(Dead(tmp_path / "log"))  # type: ignore[arg-type]
    pauses = [child.pause_s() for _ in range(DEATHS_MAX - 1)]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    with pytest.raises(Failed, match=r"ranker died 8 times in 60 s:\nthe last words"):
        child.pause_s()


def test_what_is_not_essential_is_started_again_for_ever(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("the database takes no writes")
    child = Child(Dead(tmp_path / "log"), is_essential=False)  # type: ignore[arg-type]
    with collect_warnings("warpboard.processes.child") as messages:
        pauses = [child.pause_s() for _ in range(3 * DEATHS_MAX)]
    assert pauses[: DEATHS_MAX - 1] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert set(pauses[DEATHS_MAX - 1 :]) == {LONG_PAUSE_S}
    (line,) = messages
    assert line.startswith("ranker died 8 times in 60 s; it is started again every 30 s:")
    assert "the database takes no writes" in line


def test_a_kept_port_that_is_taken_is_chosen_anew() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        first = choose_ports({"nats": port, "ranker": "x"}, ("nats", "ranker"))
    assert first["nats"] != port
    assert len(set(first.values())) == 2
    assert choose_ports(first, ("nats", "ranker")) == first


def test_what_one_platform_chose_no_other_gets_before_it_listens() -> None:
    port = choose_ports({}, ("ranker",))["ranker"]
    ask = f"from warpboard.processes.services import PortClaims; print(PortClaims().take({port}))"

    def other_gets_it() -> bool:
        process = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True)
        return process.stdout.strip() == b"True"

    claims = PortClaims()
    assert claims.take(port)
    assert not other_gets_it()
    claims.close()
    assert other_gets_it()


def test_services_are_told_where_all_is_and_passwords_by_the_environment_alone() -> None:
    names = ("ingest", "ingest_ops", "ranker", "ranker_ops", "scheduler_ops", "gpu_agent_ops")
    place = PlatformConfig(
        Path("/here"),
        "nats://127.0.0.1:1",
        Path("/keys"),
        ["local"],
        {role: f"postgresql://warpboard_{role}:secret@/postgres" for role in ROLES},
        {name: number for number, name in enumerate(names, 2)},
        "secret-token",
        "secret-key",
    )
    services = local_services(place)
    assert [service.name for service in services] == ["ranker", "ingest", "scheduler", "gpu-agent"]
    variables = [f"{key}={value}" for service in services for key, value in service.environ.items()]
    dsns, url = place.postgres_dsns, place.nats_url
    assert sorted(variables) == [
        "WARPBOARD_GPU_AGENT_DATA=/here/agent",
        "WARPBOARD_GPU_AGENT_ID=local",
        "WARPBOARD_GPU_AGENT_NATS_CREDENTIALS=/keys/agent-local.creds",
        f"WARPBOARD_GPU_AGENT_NATS_URL={url}",
        "WARPBOARD_GPU_AGENT_OPS_LISTEN=127.0.0.1:7",
        "WARPBOARD_INGEST_LISTEN=127.0.0.1:2",
        "WARPBOARD_INGEST_NAMES_BELIEVED=true",
        "WARPBOARD_INGEST_NATS_CREDENTIALS=/keys/ingest.creds",
        f"WARPBOARD_INGEST_NATS_URL={url}",
        "WARPBOARD_INGEST_OPERATOR_TOKEN=secret-token",
        "WARPBOARD_INGEST_OPS_LISTEN=127.0.0.1:3",
        f"WARPBOARD_INGEST_POSTGRES_DSN={dsns['ingest']}",
        "WARPBOARD_INGEST_RANKER_URL=http://127.0.0.1:4",
        "WARPBOARD_INGEST_READER_KEY=secret-key",
        "WARPBOARD_INGEST_WEB_SIGNUP=true",
        "WARPBOARD_RANKER_LISTEN=127.0.0.1:4",
        "WARPBOARD_RANKER_NATS_CREDENTIALS=/keys/ranker.creds",
        f"WARPBOARD_RANKER_NATS_URL={url}",
        "WARPBOARD_RANKER_OPS_LISTEN=127.0.0.1:5",
        f"WARPBOARD_RANKER_POSTGRES_DSN={dsns['ranker']}",
        "WARPBOARD_RANKER_READER_KEY=secret-key",
        "WARPBOARD_RANKER_SEAL_KEY=/here/seal.key",
        "WARPBOARD_SCHEDULER_NATS_CREDENTIALS=/keys/scheduler.creds",
        f"WARPBOARD_SCHEDULER_NATS_URL={url}",
        "WARPBOARD_SCHEDULER_OPS_LISTEN=127.0.0.1:6",
    ]
    assert not [word for service in services for word in service.command if "secret" in word]
