"""What a platform on this machine demands, and what the doctor says of it."""

import json

import pytest

from shared.api.agents import MissingWall
from tests.cli.command_runner import run_warpboard
from tests.support.api_examples import make_example
from warpboard.domain.demand import (
    TIERS,
    Demand,
    Offer,
    choose_demand,
    demand_environ,
    demand_line,
    offer_exit_code,
    offer_lines,
)

UID = make_example(MissingWall, wall="uid", reason="not root", fix="run the agent as root")
BWRAP = make_example(MissingWall, wall="bubblewrap", reason="no bwrap", fix="apt install it")
PRIORITY = make_example(MissingWall, wall="real-time", reason="EPERM", fix="set LimitRTPRIO=1")
WEAK = Offer(
    level="weak",
    tier="C2",
    device="cpu",
    walls=["seccomp"],
    missing=[UID],
    launchers=["zygote"],
    launchers_missing=[BWRAP],
    priorities_missing=[PRIORITY],
)
STRONG = Offer(
    level="strong", tier="C1", device="cpu", walls=["seccomp", "uid"], priorities=["real-time"]
)


@pytest.mark.parametrize("offer", [WEAK, STRONG])
def test_by_default_what_there_is_is_enough(offer: Offer) -> None:
    demand = choose_demand(offer, None)
    assert demand.level_min == offer.level
    assert offer.tier in demand.tiers
    assert not demand.is_own


def test_a_demand_for_strong_takes_no_tier_below() -> None:
    assert choose_demand(WEAK, "strong") == Demand("strong", TIERS, is_own=True)


def test_agent_and_ranker_hear_the_same_demand() -> None:
    environ = demand_environ(choose_demand(WEAK, None))
    assert (
        environ["WARPBOARD_GPU_AGENT_LEVEL_MIN"] == environ["WARPBOARD_RANKER_LEVEL_MIN"] == "weak"
    )
    assert (
        environ["WARPBOARD_GPU_AGENT_TIERS"] == environ["WARPBOARD_RANKER_TIERS"] == "G1 G2 C1 C2"
    )


def test_rows_below_the_best_are_called_what_they_are() -> None:
    assert "provisional" in demand_line(choose_demand(WEAK, None))
    assert "provisional" not in demand_line(choose_demand(STRONG, None))


def test_the_doctor_tells_each_wall_and_the_fix_of_what_is_missing() -> None:
    lines = list(offer_lines(WEAK))
    assert lines[0] == "isolation weak; device cpu, timing tier C2"
    assert "  wall seccomp: ok" in lines
    assert "  wall uid: missing, not root; to fix it: run the agent as root" in lines
    assert "  launcher bubblewrap: missing, no bwrap; to fix it: apt install it" in lines
    assert "  priority real-time: missing, EPERM; to fix it: set LimitRTPRIO=1" in lines
    assert "  priority real-time: ok" in offer_lines(STRONG)
    assert lines[-1].startswith("below strong")
    assert (offer_exit_code(WEAK), offer_exit_code(STRONG)) == (1, 0)


def test_the_doctor_looks_at_this_very_machine() -> None:
    result = run_warpboard("agent", "doctor", "--json")
    offer = json.loads(result.stdout)
    assert result.exit_code == (0 if offer["level"] == "strong" else 1)
    assert offer["tier"] in ("C1", "C2")
    assert "zygote" in offer["launchers"]
    assert run_warpboard("agent", "doctor").stdout.startswith(f"isolation {offer['level']}")
