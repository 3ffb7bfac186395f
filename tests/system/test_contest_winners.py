"""Three real agents: two of them confirm the winner of a contest, which ends with final results."""

import asyncio
import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import yaml

from harness.hidden_sizes import read_family
from harness.vocabulary import PASSED
from shared import subjects
from shared.contests.definition import REVIEW_ITEMS
from shared.event_log import RecordedEvent
from shared.events import ConfirmationJudged, ConfirmationRequested, RunCompleted
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from tests.support.clocked_platform import ClockedRunning
from tests.support.contests import SLUG as CONTEST
from tests.support.contests import TERMS, contest_fields
from tests.support.people import REFERENCE, Person
from tests.support.waits import until
from tests.system.crew import LOCAL, SETTINGS, STEADY, TASK, Crew, crew_of

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.server,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("servers"),
]

CUP = "cup"
HIDDEN = "hidden: {tests: {count: 2, args: {size: {from: 16, to: 4096}}}}\n"
FAMILY = read_family("tests", yaml.safe_load(HIDDEN)["hidden"]["tests"])
OTHERS = ("other", "slow")
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
WITHIN_S = 150.0


@pytest.fixture
def clocked(tmp_path_factory: pytest.TempPathFactory) -> ClockedRunning:
    """A platform on a clock, not started yet."""
    folder = tmp_path_factory.mktemp("winners")
    return ClockedRunning(folder / "home", datetime.now(UTC), SETTINGS)


@pytest.fixture
def crew(clocked: ClockedRunning) -> Iterator[Crew]:
    """The platform with three agents, and a problem with hidden sizes."""
    problem = {
        "task.yml": TASK.replace("ranked_timeout: 20", "ranked_timeout: 6"),
        "reference.py": REFERENCE,
        "warpboard.yml": HIDDEN,
    }
    with crew_of(clocked, CUP, problem) as crew:
        crew.hire(*OTHERS)
        yield crew


@pytest.mark.feature("N14")
def test_two_more_agents_confirm_the_winner_of_a_contest_with_fresh_sizes(
    clocked: ClockedRunning, crew: Crew
) -> None:
    """How fast each of them is on a shared machine is not for this test to say."""
    clock = clocked.clock
    starts_at = clock.now().replace(minute=0, second=0, microsecond=0) + HOUR
    fields = contest_fields(
        starts_at,
        teams={"size_max": 1},
        divisions=[{"slug": "hand", "title": "By hand"}],
        problems=[{"slug": CUP, "confirm_fresh": True}],
        podium=1,
        confirm_agents=len(OTHERS),
        appeal_hours=1,
    )
    crew.admin("post", "participants", name="olga")
    body = {"contest_yml": json.dumps(fields), "files": {"terms.md": TERMS.decode()}}
    ask(crew.http, "POST", "", json=body | {"reason": "a test"})
    with Person(clocked.url, "ada") as ada, Person(clocked.url, "olga") as olga:
        clock.move_to(starts_at + MINUTE)
        digest = hashlib.sha256(TERMS).hexdigest()
        entry = {"division": "hand", "terms_digest": digest, "declaration": {}}
        ask(ada.http, "POST", f"/{CONTEST}/registration", json=entry)
        clock.move_to(starts_at + 2 * HOUR + MINUTE)
        number = ada.submit(STEADY, "ranked", problem=CUP)
        assert ada.end(number, WITHIN_S)["outcome"] == "passed"
        clock.move_to(starts_at + 4 * HOUR + MINUTE)
        ask(olga.http, "POST", f"/{CONTEST}/results")
        winner = until(lambda: find_repeated(olga.http), WITHIN_S)
        (reviewed,) = winner["entries"]
        assert (reviewed["number"], reviewed["is_fresh"]) == (number, True)
        assert reviewed["state"] == winner["repetitions"]
        assert reviewed["state"] in ("confirmed", "differs"), reviewed
        assert re.match(r"confirmed by \d of 2 agents", reviewed["confirmation"])
        check_repetitions(clocked)
        for item in REVIEW_ITEMS:
            decision = {"contestant": winner["contestant"], "item": item, "is_passed": True}
            ask(olga.http, "POST", f"/{CONTEST}/reviews", json=decision)
        clock.move_to(starts_at + 5 * HOUR + 2 * MINUTE)
        ask(olga.http, "POST", f"/{CONTEST}/results/confirm")
        until(lambda: ask(ada.http, "GET", f"/{CONTEST}/results")["state"] == "final")
    audited = asyncio.run(clocked.run_command("server", "audit", "--contest", CONTEST))
    assert audited.code == 0, audited


def ask(http: httpx.Client, method: str, path: str, **request: Any) -> dict[str, Any]:
    """The good answer to a request below `/v1/contests`."""
    answer = http.request(method, f"/v1/contests{path}", **request)
    assert answer.is_success, answer.text
    body: dict[str, Any] = answer.json()
    return body


def find_repeated(http: httpx.Client) -> dict[str, Any]:
    """The first place once all repetitions of its run are over; empty before."""
    winner: dict[str, Any] = ask(http, "GET", f"/{CONTEST}/results")["places"][0]
    (entry,) = winner["entries"]
    is_over = entry["state"] != "waiting" and "waiting" not in entry["confirmation"]
    return winner if is_over else {}


def check_repetitions(running: ClockedRunning) -> None:
    """The winner's run was repeated by each other agent, and each run drew its own sizes."""
    events = read_history(running, "confirmation.>")
    requested = {
        event.envelope.aggregate: event.fact
        for event in events
        if isinstance(event.fact, ConfirmationRequested)
    }
    runs = {(request.agent, request.run) for request in requested.values()}
    for event in events:
        if isinstance(event.fact, ConfirmationJudged):
            assert event.fact.result is not None, event.fact
            assert event.fact.result.run is not None
            runs.add((event.fact.agent, event.fact.result.run))
    assert sorted(agent for agent, _ in runs) == sorted((LOCAL, *OTHERS))
    drawn = set[str]()
    for agent, run in runs:
        completed = read_history(running, subjects.run(agent, run))[-1].fact
        assert isinstance(completed, RunCompleted)
        hidden = [it.verdict for it in completed.cases if it.name.startswith("hidden test ")]
        assert hidden == [PASSED] * FAMILY.count
        drawn.add(str(FAMILY.draw(bytes.fromhex(completed.key))))
    assert len(drawn) == len(runs)


def read_history(running: ClockedRunning, aggregate: str) -> list[RecordedEvent]:
    """The events of an aggregate, or of all that match."""
    login = running.bus_login()

    async def read() -> list[RecordedEvent]:
        nc = await connect(login, "a test")
        try:
            return list(await NatsLog(nc).history(aggregate))
        finally:
            await nc.close()

    return asyncio.run(read())
