"""What operators are told of their platform."""

from datetime import UTC, datetime

import pytest

from shared.api.agents import Agent, MissingWall
from shared.api.queues import Launcher, Pool
from shared.errors import Refused
from tests.support.api_examples import make_example
from warpboard.domain.demand import Device, FoundGpu, Offer, choose_devices, gpu_lines
from warpboard.terminal.platform import agent_facts, welcome_lines
from warpboard.terminal.status import launcher_table

AT = datetime(2026, 11, 1, tzinfo=UTC)


def test_a_machine_without_gpu_and_walls_says_so_with_the_mend() -> None:
    agent = make_example(
        Agent,
        id="a",
        gpu="CPU",
        level="none",
        tier="C2",
        is_alive=True,
        registered_at=AT,
        missing=[make_example(MissingWall, wall="uid", reason="not root", fix="run as root")],
        modes=["test"],
        details={"ranked_not_offered": "isolation is none, strong is demanded"},
    )
    assert list(agent_facts([agent])) == [
        "no GPU: the agent offers the device cpu, shown as GPU type CPU",
        "agent a: isolation none, timing tier C2: run only code you trust",
        "  wall uid: missing, not root; to fix it: run as root",
        "  mode ranked is not offered: isolation is none, strong is demanded",
    ]


def test_a_confined_gpu_needs_no_warning() -> None:
    agent = make_example(
        Agent,
        id="a",
        gpu="H100",
        level="strong",
        tier="G1",
        modes=["ranked"],
        is_alive=True,
        registered_at=AT,
    )
    assert list(agent_facts([agent])) == ["agent a: isolation strong, timing tier G1"]


def test_an_agent_in_quarantine_says_why() -> None:
    agent = make_example(
        Agent,
        id="a",
        gpu="H100",
        modes=["ranked"],
        quarantine="ill\x1b",
        is_alive=True,
        registered_at=AT,
    )
    assert "  in quarantine: ill\\x1b" in list(agent_facts([agent]))


def test_a_silent_agent_is_none() -> None:
    (line,) = agent_facts([make_example(Agent, id="a", gpu="CPU", level="none")])
    assert "submissions wait" in line


def test_an_agent_that_has_not_said_what_it_offers_is_not_described() -> None:
    agent = make_example(Agent, id="a", gpu="CPU", level="", is_alive=True, registered_at=None)
    (line,) = agent_facts([agent])
    assert "submissions wait" in line


def test_who_comes_for_the_first_time_is_told_where_all_is() -> None:
    welcome = "\n".join(welcome_lines("http://127.0.0.1:8000"))
    for path in ("/\n", "/docs", "/login"):
        assert f"http://127.0.0.1:8000{path}" in welcome
    assert "warpboard submit" in welcome


H100 = FoundGpu(device="cuda", index=0, name="NVIDIA H100", tier="G1")
MI300 = FoundGpu(device="hip", index=0, name="AMD Instinct MI300X", tier="G0")
BROKEN = FoundGpu(device="cuda", index=1, name="NVIDIA T4", problem="no torch")
MIXED = Offer(level="strong", tier="C1", device="cpu", gpus=[H100, BROKEN, MI300])


def test_a_mixed_host_gets_an_agent_for_each_gpu_that_works() -> None:
    devices = choose_devices(MIXED, [])
    assert devices == [Device("cuda", 0), Device("hip", 0)]
    assert list(gpu_lines(MIXED, devices)) == [
        "found NVIDIA H100 (cuda:0): isolation strong, timing tier G1",
        "found NVIDIA T4 (cuda:1): it cannot be used: no torch",
        "found AMD Instinct MI300X (hip:0): isolation strong, timing tier G0",
    ]


def test_an_operator_names_the_devices() -> None:
    assert choose_devices(MIXED, ["cpu", "cuda"]) == [Device("cpu"), Device("cuda", 0)]
    assert choose_devices(MIXED, ["none"]) == []
    *_, line = gpu_lines(MIXED, [Device("cpu")])
    assert line.endswith("timing tier G0; no agent was started for it")


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ("tpu", "expected cpu, cuda, hip, none"),
        ("cpu:1", "expected cpu, cuda"),
        ("cuda:1", "NVIDIA T4: no torch"),
        ("hip:3", "no such GPU was found here"),
    ],
)
def test_a_device_that_is_not_here_is_refused(device: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        choose_devices(MIXED, [device])


def test_launchers_are_listed_once_with_what_they_run_and_cost() -> None:
    launcher = Launcher(
        name="github", kind="github", running=1, running_max=2, cost_today=3.5, daily_cost_max=10
    )
    pools = [make_example(Pool, gpu=gpu, launchers=[launcher]) for gpu in ("H100", "B200")]
    (table,) = launcher_table(pools)
    assert table.rows == [("github", "github", "H100, B200", "1 of 2", "3.50 of 10.00")]
    assert launcher_table([make_example(Pool, launchers=[])]) == []
