"""How participants are told on Discord: off until they choose, and told to the edge alone."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.domain.preferences import Choose, preferences, whole
from ingest.http.preferences import Chosen, Preferences
from shared.errors import Refused
from shared.events import PREFERENCES, Blob, PreferenceSet, RejudgeItem, RejudgeRequested
from shared.memory import MemoryLog
from tests.ingest.test_edge import EDGE, EDGE_TOKEN, user
from tests.support.door import FILES, OPERATOR, Door, opened, postgres_stores, report_of, taken_in
from tests.support.holders import bearer, code, made

URL = "/v1/me/preferences"
CHOICES = st.dictionaries(
    st.sampled_from(sorted(PREFERENCES)), st.sampled_from(["off", "on", "dm", "thread", "x"])
)


@given(st.lists(CHOICES))
def test_what_was_chosen_last_holds_and_nothing_else_changes(said: list[dict[str, str]]) -> None:
    state: Mapping[str, str] = {}
    for wanted in said:
        before = whole(state)
        if any(value not in PREFERENCES[name] for name, value in wanted.items()):
            with pytest.raises(Refused, match="is none of"):
                preferences.decide(Choose(wanted), state)
            continue
        facts = preferences.decide(Choose(wanted), state)
        for fact in facts:
            state = preferences.evolve(state, fact)
        assert whole(state) == before | wanted
        assert bool(facts) == (whole(state) != before)


def test_the_route_takes_and_tells_all_there_is_to_choose() -> None:
    said = {name: get_args(kind) for name, kind in get_type_hints(Preferences).items()}
    assert said == PREFERENCES
    assert set(Chosen.model_fields) == set(PREFERENCES)


@pytest.fixture
async def door(postgres_dsn: str) -> AsyncIterator[Door]:
    edge = (EDGE_TOKEN, frozenset[str]())
    async with (
        postgres_stores(postgres_dsn) as stores,
        opened(MemoryLog(), stores=stores, are_names_believed=False, edge=edge) as found,
    ):
        said = {"slug": "copy", "report": report_of(FILES)}
        parts = [("files", (name, text)) for name, text in FILES.items()]
        answer = await found.http.post("/v1/problems", data=said, files=parts, headers=OPERATOR)
        assert answer.status_code == 201, answer.text
        yield found


async def asked(door: Door, path: str, headers: Mapping[str, str] = EDGE) -> dict[str, Any]:
    """What a read answers, to the edge unless it is somebody else's."""
    answer = await door.http.get(path, headers=headers)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.server
async def test_one_is_told_as_one_chose_on_discord_or_elsewhere(door: Door) -> None:
    # Who was never here has nothing; whom choosing makes a participant, is told of no more.
    assert code(await door.http.get(URL, headers=user(7))) == (401, "missing_credential")
    answer = await door.http.put(URL, json={"overtaken": "dm"}, headers=user(7))
    assert (answer.json()["overtaken"], answer.json()["run_finished"]) == ("dm", "off")
    again = await door.http.put(URL, json={"overtaken": "dm"}, headers=user(7))
    assert again.json() == answer.json() == await asked(door, URL, user(7))
    facts = [one.fact for one in door.log.since(0) if isinstance(one.fact, PreferenceSet)]
    assert facts == [PreferenceSet(preference="overtaken", value="dm")]
    refused = await door.http.put(URL, json={"overtaken": "loudly"}, headers=user(7))
    assert refused.status_code == 422

    assert (await door.submit(headers=user(7))).status_code == 202
    [(number, identity, received)] = taken_in(door.log)
    [found] = (await asked(door, "/v1/edge/participants?wish=overtaken"))["items"]
    assert (found["discord"], found["participant_id"]) == ("7", received.account)
    assert (await asked(door, "/v1/edge/participants?wish=deadline_near"))["items"] == []
    assert await asked(door, f"/v1/edge/participants/{received.account}") == found
    owned = await asked(door, f"/v1/edge/submissions/{identity}")
    assert {name: owned[name] for name in found} == found
    assert (owned["number"], owned["problem"]) == (number, "copy")
    lost = await door.http.get("/v1/edge/submissions/nothing", headers=EDGE)
    assert code(lost) == (404, "unknown_submission")


@pytest.mark.server
async def test_who_is_on_discord_is_told_to_the_edge_alone(door: Door) -> None:
    wide = await made(door, "walt", "account")
    answer = await door.http.put(URL, json={"run_finished": "dm"}, headers=bearer(wide["token"]))
    assert answer.is_success, answer.text
    [walt] = (await asked(door, "/v1/edge/participants?wish=run_finished"))["items"]
    assert walt["discord"] is None
    for headers in (bearer(wide["token"]), OPERATOR, {}):
        answer = await door.http.get("/v1/edge/participants/a-1", headers=headers)
        assert code(answer) == (401, "missing_credential")
    narrow = await made(door, "walt", "account", problems=["copy"])
    answer = await door.http.put(URL, json={"overtaken": "dm"}, headers=bearer(narrow["token"]))
    assert code(answer) == (403, "scope_missing")


@pytest.mark.server
async def test_the_edge_is_told_what_a_rejudge_is_about(door: Door) -> None:
    item = RejudgeItem(
        submission="s",
        account="a",
        gpu="CPU",
        source=Blob(digest="d", bytes=1),
        name="k.py",
    )
    requested = RejudgeRequested(
        problem="copy",
        from_number=1,
        to_number=2,
        to_digest="d",
        select="all",
        reason="r",
        items=[item],
    )
    await door.say("rejudge.r-1", requested)
    assert await asked(door, "/v1/edge/rejudges/r-1") == {
        "problem": "copy",
        "from_version": 1,
        "to_version": 2,
        "submissions": 1,
        "changed": 0,
    }
    assert (await door.http.get("/v1/edge/rejudges/r-2", headers=EDGE)).status_code == 404
