"""The one door that is open to who is banned: to ask that somebody looks again."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.identity.accounts import rules as accounts
from ingest.identity.accounts.rules import AccountCommand
from ingest.moderation import rules as moderation
from ingest.moderation.rules import BanAppealCommand
from shared.blobs import BlobNotFound, describe_blob
from shared.errors import Refused
from shared.events import (
    AccountBanned,
    AccountUnbanned,
    BanAppealDecided,
    BanAppealFiled,
    Blob,
    Fact,
)
from tests.ingest.taking_in import T0
from tests.support.door import ADA, Door

URL = "/v1/me/appeal"
STEPS = st.lists(st.sampled_from(["ban", "unban", "appeal", "accept", "reject", "wait"]))


def said(step: str, state: moderation.BanAppealState, at: datetime) -> Sequence[Fact]:
    """What a step makes; nothing where it is refused."""
    try:
        match step:
            case "ban":
                ban = AccountBanned(reason="r", until_at=at + timedelta(hours=1))
                return accounts.decide(AccountCommand(ban, at), state.account)
            case "unban":
                return accounts.decide(
                    AccountCommand(AccountUnbanned(reason="r"), at), state.account
                )
            case "appeal":
                filed = BanAppealFiled(text=Blob(digest="d", bytes=1))
                return moderation.decide_ban_appeal(BanAppealCommand(filed, at), state)
            case "accept" | "reject":
                answer = BanAppealDecided(is_accepted=step == "accept", reason="r")
                return moderation.decide_ban_appeal(BanAppealCommand(answer, at), state)
    except Refused as refused:
        if refused.code != "wrong_state":
            raise
    return ()


@pytest.mark.feature("A4", "N10")
@given(STEPS)
def test_each_ban_is_appealed_and_answered_once_at_most(steps: list[str]) -> None:
    history: list[Fact] = []
    at, count = T0, Counter[str]()
    for step in steps:
        at += timedelta(minutes=40 if step == "wait" else 1)
        state = moderation.BAN_APPEAL_DECIDER.fold(history)
        facts = said(step, state, at)
        history += facts
        kinds = [type(fact).__name__ for fact in facts]
        count = Counter() if "AccountBanned" in kinds else count + Counter(kinds)
        assert count["BanAppealDecided"] <= count["BanAppealFiled"] <= 1
        if "BanAppealFiled" in kinds:
            assert state.account.ban_at(at) is not None
        if facts and step == "accept":
            assert moderation.BAN_APPEAL_DECIDER.fold(history).account.ban_at(at) is None


@pytest.mark.server
async def test_a_banned_participant_can_only_appeal(door: Door) -> None:
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
    with pytest.raises(BlobNotFound):
        await door.commands.moderation.ports.blobs.get(describe_blob(b"it was nobody").digest)
    assert "is waiting for an answer" in (await door.http.get("/v1/me", headers=ADA)).json()["ban"]
    appeal = (await door.admin("GET", "participants/ada")).json()["ban_appeal"]
    assert (appeal["text"], appeal["is_accepted"]) == (plea["text"], None)
    answer = {"is_accepted": False, "reason": "he says not"}
    path = "participants/ada/decide-appeal"
    refusal = await door.said(await door.admin("POST", path, **answer))
    assert refusal == BanAppealDecided(is_accepted=False, reason="he says not")
    assert "he says not" in (await door.submit()).json()["detail"]
    assert (await door.admin("POST", path, **answer)).status_code == 409
    await door.admin("POST", "participants/ada/unban", reason="a year is over")
    await door.admin("POST", "participants/ada/ban", reason="again")
    assert (await door.http.post(URL, json=plea, headers=ADA)).status_code == 201
    accepted = await door.admin("POST", path, is_accepted=True, reason="he says so")
    facts = [event.fact for event in door.log.since(accepted.json()["seq"] - 2)]
    assert facts[1] == AccountUnbanned(reason="he says so")
    assert (await door.submit()).status_code == 202
    appeal = (await door.admin("GET", "participants/ada")).json()
    assert (appeal["ban"], appeal["ban_appeal"]["is_accepted"]) == (None, True)
