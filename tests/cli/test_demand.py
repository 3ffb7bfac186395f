"""What a platform on this machine demands, and what the doctor says of it."""

import json

import pytest

from tests.cli.asked import warpboard
from warpboard.domain.answers import Missing
from warpboard.domain.demand import TIERS, Demand, demanded, environ, worth
from warpboard.domain.doctor import Offer, exit_code, lines

UID = Missing(wall="uid", reason="not root", mend="run the agent as root")
BWRAP = Missing(wall="bubblewrap", reason="no bwrap", mend="apt install it")
WEAK = Offer(
    level="weak",
    tier="C2",
    device="cpu",
    walls=["seccomp"],
    missing=[UID],
    launchers=["zygote"],
    launchers_missing=[BWRAP],
)
STRONG = Offer(level="strong", tier="C1", device="cpu", walls=["seccomp", "uid"])


@pytest.mark.parametrize("offer", [WEAK, STRONG])
def test_by_default_what_there_is_is_enough(offer: Offer) -> None:
    demand = demanded(offer, None)
    assert demand.level_min == offer.level
    assert offer.tier in demand.tiers
    assert not demand.is_own


def test_a_demand_for_strong_takes_no_tier_below() -> None:
    assert demanded(WEAK, "strong") == Demand("strong", TIERS, is_own=True)


def test_agent_and_ranker_hear_the_same_demand() -> None:
    said = environ(demanded(WEAK, None))
    assert said["WARPBOARD_GPU_AGENT_LEVEL_MIN"] == said["WARPBOARD_RANKER_LEVEL_MIN"] == "weak"
    assert said["WARPBOARD_GPU_AGENT_TIERS"] == said["WARPBOARD_RANKER_TIERS"] == "G1 G2 C1 C2"


def test_rows_below_the_best_are_called_what_they_are() -> None:
    assert "provisional" in worth(demanded(WEAK, None))
    assert "provisional" not in worth(demanded(STRONG, None))


def test_the_doctor_tells_each_wall_and_the_mend_of_what_is_missing() -> None:
    said = list(lines(WEAK))
    assert said[0] == "isolation weak; device cpu, timing tier C2"
    assert "  wall seccomp: ok" in said
    assert "  wall uid: missing, not root; to mend it: run the agent as root" in said
    assert "  launcher bubblewrap: missing, no bwrap; to mend it: apt install it" in said
    assert said[-1].startswith("below strong")
    assert (exit_code(WEAK), exit_code(STRONG)) == (1, 0)


def test_the_doctor_looks_at_this_very_machine() -> None:
    result = warpboard("agent", "doctor", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == (0 if found["level"] == "strong" else 1)
    assert found["tier"] in ("C1", "C2")
    assert "zygote" in found["launchers"]
    assert warpboard("agent", "doctor").stdout.startswith(f"isolation {found['level']}")
