"""Participants and operators about one submission: cancel, hold, appeal, ban, rejudge."""

from datetime import timedelta

import httpx
import pytest
from msgspec import structs

from shared import subjects
from shared.clock import now
from shared.events import (
    AppealFiled,
    Fact,
    OperatorActed,
    RejudgePreviewed,
    RejudgeRequested,
    SubmissionCancelRequested,
    SubmissionHeld,
    SubmissionReceived,
    SubmissionReleased,
)
from tests.ingest.conftest import shares_a_door
from tests.support.door import ADA, FILES, FINISHED, OPERATOR, Door
from tests.support.examples import example_event
from tests.support.holders import code

pytestmark = pytest.mark.server

GRACE = {"Warpboard-Participant": "grace"}
CAROL = {"Warpboard-Participant": "carol"}


async def post(
    door: Door, number: int, action: str, headers: dict[str, str], **body: str
) -> httpx.Response:
    path = f"/v1/submissions/{number}/{action}"
    return await door.http.post(path, json=body or None, headers=headers)


async def test_cancelling_twice_is_one_cancellation(door: Door) -> None:
    number = await door.number()
    first, second = [await post(door, number, "cancel", ADA) for _ in range(2)]
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["state"] == second.json()["state"] == "cancelling"
    (event,) = door.log.since(number)
    assert isinstance(event.fact, SubmissionCancelRequested)
    assert event.envelope.actor == door.log.since(number - 1)[0].envelope.actor
    assert (second.json()["event"], second.json()["seq"]) == (None, None)


async def test_only_operators_cancel_for_others(door: Door) -> None:
    number = await door.number()
    assert code(await post(door, number, "cancel", GRACE)) == (403, "not_yours")
    answer = await post(door, number, "cancel", ADA | OPERATOR, reason="a mistake")
    fact = await door.said(answer)
    assert fact == SubmissionCancelRequested(reason="a mistake")


async def test_an_ended_submission_cannot_be_cancelled(door: Door) -> None:
    number = await door.number()
    await door.finish(number)
    assert code(await post(door, number, "cancel", ADA)) == (409, "already_ended")
    assert code(await post(door, 99, "cancel", ADA)) == (404, "unknown_submission")
    assert code(await post(door, 0, "cancel", ADA)) == (422, "invalid_request")


async def test_an_operator_retries_once_what_the_platform_failed(door: Door) -> None:
    number = await door.number()
    await door.finish(number, structs.replace(FINISHED, outcome="infra_failed"))
    answer = await door.admin("POST", f"submissions/{number}/retry", reason="its host lost power")
    retried, new_number = await door.said(answer), answer.json()["seq"]
    received = door.log.since(number - 1)[0].fact
    assert isinstance(retried, SubmissionReceived)
    assert isinstance(received, SubmissionReceived)
    sent_at = door.log.since(number - 1)[0].envelope.at
    for name in ("account", "problem_digest", "gpu", "mode", "name", "source"):
        assert getattr(retried, name) == getattr(received, name)
    assert (retried.via, retried.bucket, retried.cost) == ("operator", "", 0)
    assert retried.deadline_at > received.deadline_at
    assert (received.sent_at, retried.sent_at) == (None, sent_at)
    acted = OperatorActed(command="retry", target=str(number), reason="its host lost power")
    assert door.log.since(new_number)[0].fact == acted
    again = await door.admin("POST", f"submissions/{number}/retry", reason="r")
    assert code(again) == (409, "wrong_state")
    assert f"as submission {new_number}" in again.json()["detail"]
    # The new one is open: it is submitted again in its turn, and cancelled.
    answer = await door.admin("POST", f"submissions/{new_number}/retry", reason="stuck")
    last = await door.said(answer)
    assert isinstance(last, SubmissionReceived)
    assert last.sent_at == sent_at
    facts = [event.fact for event in door.log.since(new_number)]
    assert SubmissionCancelRequested(reason="stuck") in facts


async def test_what_was_judged_or_withdrawn_is_not_retried(door: Door) -> None:
    judged, withdrawn = await door.number(), await door.number()
    await door.finish(judged)
    assert (await door.http.delete(f"/v1/submissions/{withdrawn}", headers=ADA)).is_success
    for number, reason in ((judged, "ended as passed"), (withdrawn, "withdrawn by its owner")):
        answer = await door.admin("POST", f"submissions/{number}/retry", reason="r")
        assert code(answer) == (409, "wrong_state")
        assert reason in answer.json()["detail"]


@pytest.mark.feature("N10")
async def test_an_appeal_against_a_disqualification_is_decided(door: Door) -> None:
    number = await door.number()
    await door.finish(number)
    assert code(await post(door, number, "appeal", ADA, text="why?")) == (409, "wrong_state")
    path = f"submissions/{number}"
    await door.said(await door.admin("POST", f"{path}/disqualify", rule="copied", reason="r"))
    assert code(await post(door, number, "appeal", GRACE, text="me too")) == (403, "not_yours")
    filed = await post(door, number, "appeal", ADA, text="I wrote it\nmyself.")
    assert filed.status_code == 201
    fact = door.log.since(filed.json()["seq"] - 1)[0].fact
    assert isinstance(fact, AppealFiled)
    assert fact.text.bytes == len("I wrote it\nmyself.")
    await door.said(
        await door.admin("POST", f"{path}/decide-appeal", is_accepted=True, reason="so it is")
    )
    assert code(await door.admin("POST", f"{path}/restore", reason="r")) == (409, "wrong_state")


@pytest.mark.feature("A7")
async def test_a_submission_is_held_and_released(door: Door) -> None:
    number = await door.number()
    path = f"submissions/{number}"
    await door.said(await door.admin("POST", f"{path}/hold", rule="too fast", reason="r"))
    assert code(await door.admin("POST", f"{path}/hold", rule="x", reason="r"))[0] == 409
    await door.said(await door.admin("POST", f"{path}/release", reason="r"))
    assert code(await door.admin("POST", f"{path}/release", reason="r"))[0] == 409


async def judge(door: Door, number: int, act: str, headers: dict[str, str]) -> httpx.Response:
    body = {"reason": "r"} | ({"rule": "own work"} if act == "hold" else {})
    path = f"/v1/admin/submissions/{number}/{act}"
    return await door.http.post(path, json=body, headers=headers)


async def said_by_author(door: Door, answer: httpx.Response) -> Fact:
    """The event of an answer, by ada, who published the problem."""
    assert answer.status_code == 200, answer.text
    event = door.log.since(answer.json()["seq"] - 1)[0]
    assert event.envelope.actor == f"account:{await door.commands.people.find('ada')}"
    return event.fact


@pytest.mark.feature("C13")
async def test_an_author_holds_and_releases_what_others_sent_to_their_problem(door: Door) -> None:
    number = (await door.submit(mode="ranked", headers=GRACE)).json()["submissions"][0]["number"]
    assert code(await judge(door, number, "hold", CAROL)) == (403, "not_yours")
    fact = await said_by_author(door, await judge(door, number, "hold", ADA))
    assert fact == SubmissionHeld(rule="own work", reason="r", is_by_author=True)
    assert code(await judge(door, number, "hold", ADA)) == (409, "wrong_state")
    assert (await post(door, number, "appeal", GRACE, text="why?")).status_code == 201
    fact = await said_by_author(door, await judge(door, number, "release", ADA))
    assert fact == SubmissionReleased(reason="r")
    for act in ("disqualify", "restore"):
        assert (await judge(door, number, act, ADA)).status_code in (403, 401)


async def test_an_author_does_not_release_what_a_moderator_holds(door: Door) -> None:
    number = (await door.submit(mode="ranked", headers=GRACE)).json()["submissions"][0]["number"]
    await door.said(await judge(door, number, "hold", OPERATOR))
    answer = await judge(door, number, "release", ADA)
    assert code(answer) == (403, "scope_missing")
    assert "a moderator holds" in answer.json()["detail"]
    await door.said(await judge(door, number, "release", OPERATOR))
    await said_by_author(door, await judge(door, number, "hold", ADA))
    await door.said(await judge(door, number, "release", OPERATOR))


async def test_an_author_releases_what_a_rule_held_but_never_their_own(door: Door) -> None:
    held = structs.replace(FINISHED, is_eligible=False, is_held=True, code="policy_review")
    (other,) = (await door.submit(mode="ranked", headers=GRACE)).json()["submissions"]
    (own,) = (await door.submit(mode="ranked", headers=ADA)).json()["submissions"]
    for receipt in (other, own):
        await door.finish(receipt["number"], held)
    await said_by_author(door, await judge(door, other["number"], "release", ADA))
    answer = await judge(door, own["number"], "release", ADA)
    assert code(answer) == (403, "scope_missing")
    assert "is your own" in answer.json()["detail"]


async def test_a_test_of_another_does_not_exist_for_the_author(door: Door) -> None:
    (receipt,) = (await door.submit(headers=GRACE)).json()["submissions"]
    number = receipt["number"]
    assert code(await judge(door, number, "hold", ADA)) == (404, "unknown_submission")
    assert code(await judge(door, 999, "hold", ADA)) == (404, "unknown_submission")


async def test_a_submission_held_under_a_shortcut_policy_is_released(door: Door) -> None:
    number = await door.number()
    held = structs.replace(FINISHED, is_eligible=False, is_held=True, code="policy_review")
    await door.finish(number, held)
    path = f"submissions/{number}/release"
    fact = await door.said(await door.admin("POST", path, reason="its own product"))
    assert fact == SubmissionReleased(reason="its own product")
    assert code(await door.admin("POST", path, reason="r"))[0] == 409


async def test_a_banned_participant_may_not_submit(door: Door) -> None:
    await door.submit()
    await door.said(await door.admin("POST", "participants/ada/ban", reason="copied twice"))
    answer = await door.submit(headers=ADA | {"Idempotency-Key": "k1"})
    assert code(answer) == (403, "user_banned")
    assert "for ever: copied twice" in answer.json()["detail"]
    assert (await door.submit(headers=GRACE)).status_code == 202
    await door.said(await door.admin("POST", "participants/ada/unban", reason="heard"))
    assert (await door.submit()).status_code == 202


async def test_a_ban_ends_by_itself(door: Door) -> None:
    await door.submit()
    until = now() + timedelta(hours=1)
    fact = await door.said(
        await door.admin("POST", "participants/ada/ban", reason="r", until_at=until.isoformat())
    )
    assert fact.until_at == until  # type: ignore[attr-defined]
    answer = await door.submit()
    assert answer.status_code == 403
    assert 3500 < int(answer.headers["retry-after"]) <= 3600


async def test_an_unknown_participant_cannot_be_banned(door: Door) -> None:
    answer = await door.admin("POST", "participants/nobody/ban", reason="r")
    assert code(answer) == (404, "unknown_participant")


async def test_a_rejudge_names_what_runs_again(door: Door) -> None:
    numbers = [await door.number(gpu=gpu) for gpu in ("CPU", "H100", "CPU")]
    await door.publish(FILES | {"reference.py": FILES["reference.py"] + b"# 1\n"})
    answer = await door.admin("POST", "rejudges", problem="copy", select="all", reason="a bug")
    assert answer.status_code == 201
    assert (answer.json()["count"], answer.json()["from_version"]) == (len(numbers), 1)
    event = door.log.since(0)[-1]
    assert isinstance(event.fact, RejudgeRequested)
    assert (event.fact.to_number, len(event.fact.items)) == (2, 3)
    assert event.envelope.actor == "operator:olga"
    few = await door.admin("POST", "rejudges", problem="copy", select="all", gpu="h100", reason="r")
    assert few.json()["count"] == 1


async def test_a_rejudge_is_applied_only_after_its_preview(door: Door) -> None:
    await door.submit()
    await door.publish(FILES | {"reference.py": FILES["reference.py"] + b"# 1\n"})
    answer = await door.admin("POST", "rejudges", problem="copy", select="best", reason="r")
    rejudge = answer.json()["id"]
    path = f"rejudges/{rejudge}/apply"
    assert code(await door.admin("POST", path, reason="r")) == (409, "wrong_state")
    await door.say(subjects.rejudge(rejudge), example_event(RejudgePreviewed))
    await door.said(await door.admin("POST", path, reason="r"))
    ended = await door.admin("POST", f"rejudges/{rejudge}/discard", reason="r")
    assert code(ended) == (409, "wrong_state")


@shares_a_door
@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"problem": "nope"}, (404, "unknown_leaderboard")),
        ({"problem": "../x"}, (404, "unknown_leaderboard")),
        ({"gpu": "TPU"}, (400, "unknown_gpu")),
        ({}, (400, "bad_rejudge")),
        ({"to_version": 7}, (400, "bad_rejudge")),
    ],
)
async def test_a_rejudge_of_nothing_is_refused(
    shared_door: Door, body: dict[str, str], found: tuple[int, str]
) -> None:
    request = {"problem": "copy", "select": "all", "reason": "r"} | body
    assert code(await shared_door.admin("POST", "rejudges", **request)) == found
