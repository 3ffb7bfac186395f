"""On which GPUs of its host a run takes place: an agent's own, or those of its whole gang."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from gpu_agent.domain import run_gpus
from gpu_agent.settings import load
from shared.errors import Refused
from shared.events import Blob, JobAssigned
from shared.signing import seal_credential

AT = datetime(2026, 1, 1, tzinfo=UTC)
GIVEN = {
    "WARPBOARD_GPU_AGENT_NATS_URL": "nats://127.0.0.1:4222",
    "WARPBOARD_GPU_AGENT_ID": "h200-3",
    "WARPBOARD_GPU_AGENT_DATA": "/var/lib/warpboard",
    "WARPBOARD_GPU_AGENT_OPS_LISTEN": "127.0.0.1:9104",
}


def order(**gang: Any) -> JobAssigned:
    return JobAssigned(
        job="j1",
        submission="s1",
        attempt=1,
        problem="identity",
        problem_digest="d",
        source=Blob(digest="x", bytes=1),
        name="kernel.py",
        gpu="H200",
        mode="ranked",
        session="s",
        lease_until_at=AT,
        deadline_at=AT,
        **gang,
    )


def test_a_gang_has_the_gpus_that_its_order_names_and_a_single_agent_its_own() -> None:
    assert run_gpus(order(gang=["a3", "a1"], gpus=[3, 1]), 3) == [3, 1]
    assert run_gpus(order(), 3) == [3]
    assert run_gpus(order(gang=["a3", "a1"]), 3) == []


def test_which_gpu_is_a_setting_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    assert load().gpu_index == 0
    monkeypatch.setenv("WARPBOARD_GPU_AGENT_GPU_INDEX", "3")
    assert load().gpu_index == 3
    monkeypatch.setenv("WARPBOARD_GPU_AGENT_GPU_INDEX", "-1")
    with pytest.raises(Refused, match="GPU_INDEX is -1: expected 0 to 63"):
        load()


def test_a_sealed_credential_names_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    key = base64.b64encode(bytes(32)).decode()
    opened = {"ID": "launched-1", "NATS_URL": "nats://agent-launched-1:p@h:1", "SIGN_SEED": key}
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WARPBOARD_GPU_AGENT_CREDENTIAL", seal_credential(opened, key))
    monkeypatch.setenv("WARPBOARD_GPU_AGENT_CREDENTIAL_KEY", key)
    settings = load()
    assert (settings.id, settings.nats_url) == ("launched-1", opened["NATS_URL"])
    assert settings.sign_seed == key
    for wrong in (base64.b64encode(bytes(range(32))).decode(), "short", ""):
        monkeypatch.setenv("WARPBOARD_GPU_AGENT_CREDENTIAL_KEY", wrong)
        with pytest.raises(Refused, match="credential"):
            load()
