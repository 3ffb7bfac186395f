"""A duel on an agent: both sources, one run, and what it found in the signed verdict."""

from dataclasses import replace

import pytest

from gpu_agent.domain import Demand, Machine, build_registration
from harness.vocabulary import DUEL
from shared.events import Missing, RunCompleted
from tests.gpu_agent.world import HONEST, World, serving

WRONG = b"def custom_kernel(data):\n    data[1].fill_(7.0)\n    return data[1]\n"


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="session")
async def test_a_duel_is_run_with_both_sources(world: World) -> None:
    world.budget_s = 2
    async with serving(world.agent()):
        rival = await world.blobs.put(HONEST + b"# another\n")
        await world.order(HONEST, "r1", mode=DUEL, rival=rival, rival_name="other.py")
        ended = (await world.until("r1", "RunCompleted")).fact
        wrong = await world.blobs.put(WRONG)
        await world.order(HONEST, "r2", mode=DUEL, rival=wrong, rival_name="other.py")
        failed = (await world.until("r2", "RunCompleted")).fact
    assert isinstance(ended, RunCompleted)
    assert ended.verdict == "passed", ended.reason
    assert ended.duel is not None
    assert ended.duel.winner in ("A", "B", "equal")
    assert ended.duel.pairs == 40
    assert isinstance(failed, RunCompleted)
    assert failed.verdict == "wrong_answer"
    assert failed.duel is not None
    assert (failed.duel.failed, failed.duel.winner) == ("B", "")


def offered(level: str, *missing: str) -> list[str]:
    walls = [Missing(wall=wall, reason="", fix="") for wall in missing]
    here = Machine("2", level, "C1", walls, {}, {})
    return build_registration("CPU", here, Demand("weak", ("C1",)), {}).modes


def test_an_agent_of_a_gpu_offers_duels_only_where_its_operator_says_so() -> None:
    here = Machine("2", "strong", "G1", [], {}, {})
    demand = Demand("strong", ("G1",), "cuda")
    assert DUEL not in build_registration("H100", here, demand, {}).modes
    assert DUEL in build_registration("H100", here, replace(demand, has_gpu_duels=True), {}).modes


def test_a_machine_that_keeps_two_apart_and_stops_them_offers_duels() -> None:
    assert offered("strong")[-1] == DUEL
    assert DUEL not in offered("medium", "freezer")
    assert DUEL not in offered("medium", "namespaces")
    assert DUEL not in offered("none")
