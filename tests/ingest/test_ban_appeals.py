"""The one door that is open to who is banned: to ask that somebody looks again."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.domain import accounts, appeals
from shared.blobs import Missing, named
from shared.errors import Refused
from shared.events import AccountUnbanned, BanAppealDecided, Blob, Fact
from tests.ingest.taking_in import T0
from tests.support.door import ADA, Door

URL = "/v1/me/appeal"
STEPS = st.lists(st.sampled_from(["ban", "unban", "appeal", "accept", "reject", "wait"]))


def said(step: str, state: appeals.Appealed, at: datetime) -> Sequence[Fact]:
    """What a step makes; nothing where it is refused."""
    try:
        match step:
            case "ban":
                ban = accounts.Ban("r", at, at + timedelta(hours=1))
                return accounts.decide(ban, state.account)
            case "unban":
                return accounts.decide(accounts.Unban("r", at), state.account)
            case "appeal":
                return appeals.decide(appeals.AppealBan(Blob(digest="d", bytes=1), at), state)
            case "accept" | "reject":
                return appeals.decide(appeals.AnswerAppeal(step == "accept", "r", at), state)
    except Refused as refused:
        if refused.code != "wrong_state":
            raise
    return ()


@given(STEPS)
def test_each_ban_is_appealed_and_answered_once_at_most(steps: list[str]) -> None:
    history: list[Fact] = []
    at, count = T0, Counter[str]()
    for step in steps:
        at += timedelta(minutes=40 if step == "wait" else 1)
        state = appeals.appeals.fold(history)
        facts = said(step, state, at)
        history += facts
        kinds = [type(one).__name__ for one in facts]
        count = Counter() if "AccountBanned" in kinds else count + Counter(kinds)
        assert count["BanAppealDecided"] <= count["BanAppealFiled"] <= 1
        if "BanAppealFiled" in kinds:
            assert state.account.ban_at(at) is not None
        if facts and step == "accept":
            assert appeals.appeals.fold(history).account.ban_at(at) is None


@pytest.mark.server
async def test_who_is_banned_may_appeal_and_nothing_else(door: Door) -> None:
    await door.number()
    plea = {"text": "it was my brother"}
    early = await door.http.post(URL, json=plea, headers=ADA)
    assert (early.status_code, early.json()["code"]) == (409, "wrong_state")
    await door.admin("POST", "participants/ada/ban", reason="two accounts")
    refused = await door.submit()
    assert "two accounts" in refused.json()["detail"]
    assert URL in refused.json()["detail"]
    assert (await door.http.post(URL, json=plea, headers=ADA)).json()["event"] == "BanAppealFiled"
    second = {"text": "it was nobody"}
    assert (await door.http.post(URL, json=second, headers=ADA)).status_code == 409
    with pytest.raises(Missing):
        await door.commands.bans.ports.blobs.get(named(b"it was nobody").digest)
    assert "waits for an answer" in (await door.http.get("/v1/me", headers=ADA)).json()["ban"]
    seen = (await door.admin("GET", "participants/ada")).json()["ban_appeal"]
    assert (seen["text"], seen["is_accepted"]) == (plea["text"], None)
    answer = {"is_accepted": False, "reason": "he says not"}
    path = "participants/ada/decide-appeal"
    said = await door.said(await door.admin("POST", path, **answer))
    assert said == BanAppealDecided(is_accepted=False, reason="he says not")
    assert "he says not" in (await door.submit()).json()["detail"]
    assert (await door.admin("POST", path, **answer)).status_code == 409
    await door.admin("POST", "participants/ada/unban", reason="a year is over")
    await door.admin("POST", "participants/ada/ban", reason="again")
    assert (await door.http.post(URL, json=plea, headers=ADA)).status_code == 201
    accepted = await door.admin("POST", path, is_accepted=True, reason="he says so")
    facts = [one.fact for one in door.log.since(accepted.json()["seq"] - 2)]
    assert facts[1] == AccountUnbanned(reason="he says so")
    assert (await door.submit()).status_code == 202
    seen = (await door.admin("GET", "participants/ada")).json()
    assert (seen["ban"], seen["ban_appeal"]["is_accepted"]) == (None, True)
