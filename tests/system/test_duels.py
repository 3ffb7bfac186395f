"""A tie on a podium is settled by a duel that a real agent runs."""

import asyncio
import hashlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from shared import subjects
from shared.events import DuelJudged
from shared.ids import podium_duel
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from tests.support.people import HONEST, Person
from tests.support.waits import until
from tests.system.crew import LOCAL, Crew, crew_of
from tests.system.test_canaries import REFERENCE, TASK

pytestmark = [
    pytest.mark.platform,
    # It compares times.
    pytest.mark.alone,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("servers"),
]

SLUG = "copied"
# So little more than another's that the score cannot tell them apart: a cheat could hide 30 us.
SLOW = HONEST.replace(
    "    return",
    "    until = time.perf_counter() + 0.000015\n"
    "    while time.perf_counter() < until:\n        continue\n    return",
)
SLOW = f"import time\n{SLOW}"
WITHIN_S = 120.0
LOOK_S = 1.0


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """A platform whose leaderboards have duels."""
    task = TASK.replace("ranked_timeout: 60", "ranked_timeout: 6")
    problem = {"task.yml": task, "reference.py": REFERENCE}
    folder = tmp_path_factory.mktemp("duels")
    with crew_of(folder, SLUG, problem, WARPBOARD_RANKER_DUELS="true") as crew:
        yield crew


def judged(crew: Crew) -> DuelJudged | None:
    """How the duel of the two ended, if it is over."""
    url = crew.running.environ("ranker")["WARPBOARD_RANKER_NATS_URL"]
    one, other = (hashlib.sha256(source.encode()).hexdigest() for source in (HONEST, SLOW))
    agg = subjects.duel(podium_duel(SLUG, 1, "CPU", (one, other)))

    async def history() -> list[Any]:
        nc = await connect(url, "a test")
        try:
            return [event.fact for event in await NatsLog(nc).history(agg)]
        finally:
            await nc.close()

    facts = asyncio.run(history())
    return next((fact for fact in facts if isinstance(fact, DuelJudged)), None)


def test_a_tie_is_settled_by_a_duel(crew: Crew) -> None:
    offered = crew.agent(LOCAL)["modes"]
    if "duel" not in offered:
        pytest.skip("this machine cannot keep two submissions apart and stop one of them")
    with Person(crew.running.url, "slow") as slow, Person(crew.running.url, "fast") as fast:
        slow_number = slow.submit(SLOW, "ranked", problem=SLUG)
        slow.end(slow_number)
        fast.end(fast.submit(HONEST, "ranked", problem=SLUG))
        rows = fast.board(SLUG)
        assert [row["rank"] for row in rows] == [1, 1], "they are tied"

        def over() -> DuelJudged | None:
            # Whoever asks all the time disturbs what is timed.
            time.sleep(LOOK_S)
            return judged(crew)

        verdict = until(over, within_s=WITHIN_S)
        assert verdict is not None
        assert verdict.result is not None, verdict
        assert verdict.result.winner in ("A", "B"), verdict
        first, second = until(lambda: (rows := fast.board(SLUG))[0]["duel"] and rows)
    assert (first["participant"], second["participant"]) == ("fast", "slow")
    assert first["duel"].startswith(f"ahead of #{slow_number} by a duel: ")
    assert (first["rank"], second["rank"]) == (1, 1)
    assert crew.running.rebuild()["is_equal"]
