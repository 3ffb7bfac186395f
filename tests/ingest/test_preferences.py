"""How participants are told on Discord: off until they choose, and told to the edge alone."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.identity.access.preferences import PREFERENCES, with_defaults
from ingest.identity.preferences.rules import PREFERENCE_DECIDER
from ingest.identity.preferences.service import PreferencesRequest
from shared.errors import Refused
from shared.events import Blob, PreferenceSet, RejudgeItem, RejudgeRequested
from tests.ingest.test_edge import EDGE, EDGE_TOKEN, user
from tests.support.door import FILES, OPERATOR, Door, opened, postgres_stores, report_of, taken_in
from tests.support.holders import bearer, code, made
from tests.support.memory import MemoryLog

URL = "/v1/me/preferences"
CHOICES = st.dictionaries(
    st.sampled_from(sorted(PREFERENCES)), st.sampled_from(["off", "on", "dm", "thread", "x"])
)


@given(st.lists(CHOICES))
def test_the_last_choice_holds_and_nothing_else_changes(choices: list[dict[str, str]]) -> None:
    state: Mapping[str, str] = {}
    for chosen in choices:
        before = with_defaults(state)
        if any(value not in PREFERENCES[name] for name, value in chosen.items()):
            with pytest.raises(Refused, match="is not one of"):
                PREFERENCE_DECIDER.decide(chosen, state)
            continue
        facts = PREFERENCE_DECIDER.decide(chosen, state)
        for fact in facts:
            state = PREFERENCE_DECIDER.evolve(state, fact)
        assert with_defaults(state) == before | chosen
        assert bool(facts) == (with_defaults(state) != before)


def test_the_route_has_every_preference() -> None:
    assert set(PreferencesRequest.model_fields) == set(PREFERENCES)


@pytest.fixture
async def door(postgres_dsn: str) -> AsyncIterator[Door]:
    edge = (EDGE_TOKEN, frozenset[str]())
    async with (
        postgres_stores(postgres_dsn) as stores,
        opened(MemoryLog(), stores=stores, are_names_believed=False, edge=edge) as opened_door,
    ):
        form = {"slug": "copy", "report": report_of(FILES)}
        parts = [("files", (name, text)) for name, text in FILES.items()]
        answer = await opened_door.http.post(
            "/v1/problems", data=form, files=parts, headers=OPERATOR
        )
        assert answer.status_code == 201, answer.text
        yield opened_door


async def asked(door: Door, path: str, headers: Mapping[str, str] = EDGE) -> dict[str, Any]:
    """What a read answers, to the edge unless it is somebody else's."""
    answer = await door.http.get(path, headers=headers)
    assert answer.is_success, answer.text
    body: dict[str, Any] = answer.json()
    return body


@pytest.mark.feature("N8")
@pytest.mark.server
async def test_preferences_apply_on_discord_and_elsewhere(door: Door) -> None:
    # Who was never here has nothing; whom choosing makes a participant, is told of no more.
    assert code(await door.http.get(URL, headers=user(7))) == (401, "missing_credential")
    answer = await door.http.put(URL, json={"overtaken": "dm"}, headers=user(7))
    assert (answer.json()["overtaken"], answer.json()["run_finished"]) == ("dm", "off")
    again = await door.http.put(URL, json={"overtaken": "dm"}, headers=user(7))
    assert again.json() == answer.json() == await asked(door, URL, user(7))
    facts = [event.fact for event in door.log.since(0) if isinstance(event.fact, PreferenceSet)]
    assert facts == [PreferenceSet(preference="overtaken", value="dm")]
    refused = await door.http.put(URL, json={"overtaken": "loudly"}, headers=user(7))
    assert refused.status_code == 422

    assert (await door.submit(headers=user(7))).status_code == 202
    [(number, identity, received)] = taken_in(door.log)
    [participant] = (await asked(door, "/v1/edge/participants?wish=overtaken"))["items"]
    assert (participant["discord"], participant["participant_id"]) == ("7", received.account)
    assert (await asked(door, "/v1/edge/participants?wish=deadline_near"))["items"] == []
    assert await asked(door, f"/v1/edge/participants/{received.account}") == participant
    owned = await asked(door, f"/v1/edge/submissions/{identity}")
    assert {name: owned[name] for name in participant} == participant
    assert (owned["number"], owned["problem"]) == (number, "copy")
    lost = await door.http.get("/v1/edge/submissions/nothing", headers=EDGE)
    assert code(lost) == (404, "unknown_submission")


@pytest.mark.server
async def test_only_the_edge_reads_discord_ids(door: Door) -> None:
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
async def test_the_edge_reads_the_summary_of_a_rejudge(door: Door) -> None:
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
        "count": 1,
        "changed_count": 0,
    }
    assert (await door.http.get("/v1/edge/rejudges/r-2", headers=EDGE)).status_code == 404
