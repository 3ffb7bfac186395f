"""Tokens of agents, made and ended by commands, with a real nats-server."""

import asyncio
import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_agent.settings import PREFIX, open_token
from shared.bus_keys.login import BusLogin
from shared.errors import Failed
from shared.nats.connection import connect
from shared.servers.nats import NatsServer
from tests.cli.command_runner import run_against
from tests.cli.stand_in import respond_in_turn
from tests.support.servers import skip_without_nats
from warpboard.terminal.keys import start_line

pytestmark = pytest.mark.server
MADE = {"event": "Made", "seq": 7}
ENROLL = ("agent", "enroll", "a1", "--owner", "lab", "--reason", "r")
REVOKE = ("agent", "revoke", "a1", "--reason", "r")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    skip_without_nats()
    server = NatsServer(tmp_path / "nats")
    try:
        server.authority.save_address(server.start())
        yield server
    finally:
        server.stop()


def run(keys: Path, *words: str, status: int = 200, answer: Any = MADE) -> Any:
    """Run a command of an operator; return its result and the requests to ingest."""
    return run_against(
        respond_in_turn((status, answer)),
        *(*words, "--keys", keys, "--operator", "olga"),
        WARPBOARD_OPERATOR_TOKEN="secret-token",
    )


def enroll(server: NatsServer) -> dict[str, str]:
    """Enrol an agent, and return what its token says."""
    result, _ = run(server.authority.folder, *ENROLL, "--json")
    assert result.exit_code == 0, result.output
    return open_token(json.loads(result.stdout)["token"])


def is_let_in(settings: dict[str, str]) -> bool:
    """Whether the bus lets in who has this token."""
    login = BusLogin(settings["NATS_URL"], settings["NATS_CREDENTIALS"])

    async def attempt() -> None:
        nc = await connect(login, "agent", within_s=1)
        await nc.close()

    try:
        asyncio.run(attempt())
    except Failed as failed:
        return "revoked" not in str(failed)
    return True


def test_a_new_token_ends_the_older_ones(server: NatsServer) -> None:
    first = enroll(server)
    assert is_let_in(first)
    second = enroll(server)
    assert first["SIGN_SEED"] != second["SIGN_SEED"]
    assert not is_let_in(first)
    assert is_let_in(second)


def test_an_agent_whose_credentials_were_revoked_can_be_enrolled_again(
    server: NatsServer,
) -> None:
    first = enroll(server)
    server.authority.revoke("agent-a1", keeps_newest=False)
    again = enroll(server)
    assert not is_let_in(first)
    assert is_let_in(again)


def test_the_bus_lets_nobody_in_whom_ingest_refuses(server: NatsServer) -> None:
    refusal = {"code": "wrong_state", "message": "this agent is revoked"}
    result, _ = run(server.authority.folder, *ENROLL, status=409, answer=refusal)
    assert result.exit_code != 0
    assert not server.authority.credentials_path("agent-a1").exists()


def test_a_revoked_agent_is_let_in_nowhere(server: NatsServer) -> None:
    token = enroll(server)
    result, heard = run(server.authority.folder, *REVOKE)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [request.path for request in heard] == ["/v1/admin/agents/a1/revoke"]
    assert not is_let_in(token)


@pytest.mark.long
def test_an_agent_is_revoked_although_the_bus_does_not_answer(server: NatsServer) -> None:
    enroll(server)
    server.authority.save_address("nats://127.0.0.1:9")
    result, heard = run(server.authority.folder, *REVOKE)
    assert [request.path for request in heard] == ["/v1/admin/agents/a1/revoke"]
    assert result.exit_code != 0
    assert "127.0.0.1:9" in result.stderr


def test_whoever_revokes_without_the_keys_is_told_that_the_bus_still_lets_it_in(
    tmp_path: Path,
) -> None:
    result, heard = run(tmp_path, *REVOKE)
    assert [request.path for request in heard] == ["/v1/admin/agents/a1/revoke"]
    assert "server keys revoke agent-a1" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("container", f"{PREFIX}_TOKEN=SECRET docker run "),
        # The shell has an echo of its own, so this is no process.
        ("systemd", f"echo {PREFIX}_TOKEN=SECRET >> "),
    ],
)
def test_no_argument_of_a_process_has_the_token(form: str, start: str) -> None:
    line = start_line("a1", "SECRET", form)
    assert start in line
    assert line.count("SECRET") == 1


@pytest.mark.parametrize("has_settings", [False, True])
def test_no_other_user_of_the_host_reads_the_token(tmp_path: Path, *, has_settings: bool) -> None:
    file = tmp_path / "warpboard" / "gpu-agent-a1.env"
    if has_settings:
        file.parent.mkdir()
        file.write_text("WARPBOARD_GPU_AGENT_DEVICE=cuda\n")
        file.chmod(0o644)
    line = start_line("a1", "SECRET", "systemd").replace("/etc/", f"{tmp_path}/")
    storing, _, _ = line.partition(" && systemctl")
    subprocess.run(["/bin/sh", "-c", storing], check=True, timeout=10)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().splitlines()[-1] == f"{PREFIX}_TOKEN=SECRET"
