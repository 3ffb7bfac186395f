"""What one accepts before one submits, and that nothing is taken in without it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ingest.consents import rules
from ingest.identity.accounts.rules import Consents, evolve_consents
from ingest.submissions.admission import AdmissionLimits
from shared.errors import Refused
from shared.events import Blob, ConsentGiven, ConsentWithdrawn, ProblemPublished
from tests.ingest.test_submissions import version
from tests.support.door import ADA, FILES, Door, opened
from tests.support.memory import MemoryLog

TEXT = b"What I send in may be published.\n"
ASKING = {**FILES, "warpboard.yml": b"consent: CONSENT.md\n", "CONSENT.md": TEXT}
URL = "/v1/problems/copy/consent"
COMMANDS = st.lists(st.sampled_from(["give 1", "give 2", "withdraw", "publish 1", "publish 2"]))


def asking(digest: str) -> ProblemPublished:
    published = version(number=3)
    return structs.replace(published, consent="C.md", files={"C.md": Blob(digest=digest, bytes=1)})


@given(COMMANDS)
def test_only_consent_to_the_current_text_allows_submitting(steps: list[str]) -> None:
    state: Consents = {}
    published = asking("1")
    for step in steps:
        action, _, digest = step.partition(" ")
        if action == "publish":
            published = asking(digest)
            continue
        before = dict(state)
        if action == "withdraw":
            facts = rules.WITHDRAWAL_DECIDER.decide("copy", state)
        else:
            command = rules.GiveConsent("copy", digest, published)
            if rules.consent_digest(published) != digest:
                with pytest.raises(Refused, match="read it again"):
                    rules.CONSENT_DECIDER.decide(command, state)
                continue
            facts = rules.CONSENT_DECIDER.decide(command, state)
        for fact in facts:
            state = evolve_consents(state, fact)
        assert bool(facts) == (state != before)
    given_now = state.get("copy")
    if given_now == rules.consent_digest(published):
        rules.check_consent(state, "copy", published)
    else:
        with pytest.raises(Refused, match="warpboard problem consent copy"):
            rules.check_consent(state, "copy", published)
    rules.check_consent(state, "copy", version())


def account_of(door: Door, seq: int) -> str:
    """Whose account an event is about."""
    return door.log.since(seq - 1)[0].envelope.aggregate.rpartition(".")[2]


@pytest.mark.server
async def test_a_consent_is_required_given_and_withdrawn(door: Door) -> None:
    nothing = (await door.http.get(URL, headers=ADA)).json()
    assert (nothing["is_asked"], nothing["digest"], nothing["text"]) == (False, None, "")
    assert (await door.publish(ASKING)).status_code == 201
    for mode in ("test", "ranked"):
        answer = await door.submit(mode=mode)
        assert (answer.status_code, answer.json()["code"]) == (409, "consent_missing")
        assert "warpboard problem consent copy" in answer.json()["detail"]
    status = (await door.http.get(URL, headers=ADA)).json()
    assert (status["text"], status["file"], status["is_given"]) == (
        TEXT.decode(),
        "CONSENT.md",
        False,
    )
    wrong = await door.http.post(URL, json={"digest": "0" * 64}, headers=ADA)
    assert (wrong.status_code, wrong.json()["code"]) == (409, "wrong_state")
    given_ = {"digest": status["digest"]}
    answers = [(await door.http.post(URL, json=given_, headers=ADA)).json() for _ in range(2)]
    assert [reply["event"] for reply in answers] == ["ConsentGiven", None]
    fact = door.log.since(answers[0]["seq"] - 1)[0].fact
    assert fact == ConsentGiven(problem="copy", number=2, digest=status["digest"])
    assert (await door.submit()).status_code == 202
    assert (await door.submit(headers={"Warpboard-Participant": "eve"})).status_code == 409
    ada = account_of(door, answers[0]["seq"])
    allows, version = (
        door.commands.consents.allows_release,
        await door.commands.intake.published("copy"),
    )
    assert await allows(ada, "copy", version)
    assert not await allows("somebody", "copy", version)
    await door.publish({**ASKING, "reference.py": FILES["reference.py"] + b"# 2\n"})
    assert (await door.submit()).status_code == 202
    await door.publish({**ASKING, "CONSENT.md": TEXT + b"And sold.\n"})
    assert (await door.submit()).status_code == 409
    answer = await door.http.delete(URL, headers=ADA)
    assert isinstance(door.log.since(answer.json()["seq"] - 1)[0].fact, ConsentWithdrawn)
    assert (await door.http.delete(URL, headers=ADA)).json()["event"] is None


@pytest.mark.server
async def test_the_terms_are_shown_with_ranked_submissions_until_a_licence_is_chosen(
    door: Door,
) -> None:
    ranked: Any = {"mode": "ranked"}
    asking: Any = {**ranked, "needs_licence": "true"}
    # Somebody who can be asked is refused first, and nothing is accepted.
    refused = await door.submit(**asking)
    assert (refused.status_code, refused.json()["code"]) == (409, "licence_missing")
    assert refused.json()["errors"][0]["field"] == "licence"
    for words in ("public kernel archive", "`none`", "notification set licence", "/account/"):
        assert words in refused.json()["detail"]
    # Others read it in the answer; a test run is in no release.
    noticed = await door.submit(**ranked)
    assert noticed.status_code == 202
    assert noticed.json()["licence_notice"] == refused.json()["detail"]
    assert (await door.submit(mode="test")).json()["licence_notice"] is None
    own = await door.submit(**asking, licence="MIT")
    assert (own.status_code, own.json()["licence_notice"]) == (202, None)
    preferences = {"licence": "none"}
    chosen = await door.http.put("/v1/me/preferences", json=preferences, headers=ADA)
    assert chosen.json()["licence"] == "none"
    silent = await door.submit(**asking)
    assert (silent.status_code, silent.json()["licence_notice"]) == (202, None)
    # Nobody is asked for a leaderboard that never publishes sources.
    eve = {"Warpboard-Participant": "eve"}
    assert (await door.submit(headers=eve, **asking)).status_code == 409
    assert (await door.publish({**FILES, "warpboard.yml": b"publish: never\n"})).status_code == 201
    answer = await door.submit(headers=eve, **asking)
    assert (answer.status_code, answer.json()["licence_notice"]) == (202, None)
    # Nor where nothing is released.
    async with opened(MemoryLog(), limits=AdmissionLimits(asks_licence=False)) as silent_door:
        answer = await silent_door.submit(**asking)
        assert (answer.status_code, answer.json()["licence_notice"]) == (202, None)
