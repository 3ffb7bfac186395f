"""A tie on a podium is settled by a duel that a real agent runs."""

import asyncio
import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from shared import subjects
from shared.events import DuelJudged
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.subjects import podium_duel_id
from tests.support.people import Person
from tests.support.waits import until
from tests.system.crew import LOCAL, Crew, crew_of
from tests.system.test_canaries import REFERENCE, STEADY, TASK

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
OTHER = f"{STEADY}\n# The same by somebody else.\n"
WITHIN_S = 120.0
LOOK_S = 1.0
# What an operator may state of a machine (docs/timing.md): its times differ by so much from run to
# run, so scores up to e^2 = 7.4 times each other are tied. Beside two processes that never rest, a
# sleep of 10 ms took 16 ms at most (test_canaries.py), and the pace of the machine, by which times
# are scaled, differed by a factor of 1.6: together 2.6. A larger difference has p < 1 in 100,000.
SIGMA_RUN = 1.0
HISTORY = {"version": 1, "references": {}, "nulls": {}, "sigma_run": [[1000.0, SIGMA_RUN]]}


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """A platform whose leaderboards have duels, on a machine that is known to be noisy."""
    task = TASK.replace("ranked_timeout: 60", "ranked_timeout: 6")
    problem = {"task.yml": task, "reference.py": REFERENCE}
    folder = tmp_path_factory.mktemp("duels")
    state = folder / "home" / "agent" / "state"
    state.mkdir(parents=True)
    (state / "history.json").write_text(json.dumps(HISTORY))
    with crew_of(folder, SLUG, problem, WARPBOARD_RANKER_DUELS="true") as crew:
        yield crew


def judged(crew: Crew) -> DuelJudged | None:
    """How the duel of the two ended, if it is over."""
    url = crew.running.environ("ranker")["WARPBOARD_RANKER_NATS_URL"]
    one, other = (hashlib.sha256(source.encode()).hexdigest() for source in (STEADY, OTHER))
    agg = subjects.duel(podium_duel_id(SLUG, 1, "CPU", (one, other)))

    async def history() -> list[Any]:
        nc = await connect(url, "a test")
        try:
            return [event.fact for event in await NatsLog(nc).history(agg)]
        finally:
            await nc.close()

    facts = asyncio.run(history())
    return next((fact for fact in facts if isinstance(fact, DuelJudged)), None)


def test_a_tie_has_a_duel_and_its_result_is_shown(crew: Crew) -> None:
    """Whoever wins: how small a difference it sees is for the simulations to say."""
    offered = crew.agent(LOCAL)["modes"]
    if "duel" not in offered:
        pytest.skip("this machine cannot keep two submissions apart and stop one of them")
    with Person(crew.running.url, "one") as one, Person(crew.running.url, "other") as other:
        numbers = {}
        for who, name, source in ((one, "one", STEADY), (other, "other", OTHER)):
            numbers[name] = who.submit(source, "ranked", problem=SLUG)
            assert who.end(numbers[name])["outcome"] == "passed"
        before = one.board(SLUG)
        assert [row["rank"] for row in before] == [1, 1], "they are tied"

        def over() -> DuelJudged | None:
            # Whoever asks all the time disturbs what is timed.
            time.sleep(LOOK_S)
            return judged(crew)

        verdict = until(over, within_s=WITHIN_S)
        assert verdict is not None
        result = verdict.result
        assert result is not None, verdict
        assert (result.pairs, result.failed) == (40, "")
        # A is the one that stood first.
        names = [row["participant"] for row in before]
        expected = names[::-1] if result.winner == "B" else names

        def shown() -> list[dict[str, Any]]:
            rows = one.board(SLUG)
            is_told = bool(rows[0]["duel"]) == (result.winner != "equal")
            return rows if is_told else []

        first, second = until(shown)
    assert [first["participant"], second["participant"]] == expected
    if result.winner != "equal":
        assert first["duel"].startswith(f"ahead of #{numbers[expected[1]]} by a duel: ")
    assert (first["rank"], second["rank"]) == (1, 1)
    assert crew.running.rebuild()["is_equal"]
