"""Leaderboards that are closed, dated or archived, and the invites that let people in."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from shared.clock import now
from shared.events import (
    InviteRedeemed,
    LeaderboardChanged,
    SubmissionCancelRequested,
    SubmissionWithdrawn,
)
from tests.support.door import ADA, FILES, KERNEL, OPERATOR, Door, opened, report_of, taken_in
from tests.support.examples import CPP
from tests.support.holders import code
from tests.support.memory import MemoryLog

pytestmark = pytest.mark.server

EVE, GRACE = {"Warpboard-Participant": "eve"}, {"Warpboard-Participant": "grace"}
BOARD = "leaderboards/copy"


@pytest.fixture
async def closed() -> AsyncIterator[Door]:
    """A door with ada's problem copy, which is closed."""
    async with opened(MemoryLog()) as door:
        answer = await door.admin("PUT", BOARD, visibility="closed", reason="a contest")
        assert answer.json()["event"] == "LeaderboardChanged", answer.text
        yield door


async def invited(door: Door, count: int = 1, **more: Any) -> list[str]:
    """Codes of fresh invites to copy."""
    body = {"leaderboards": ["copy"], "count": count, "reason": "r"} | more
    answer = await door.http.post("/v1/admin/invites", json=body, headers=ADA)
    assert answer.status_code == 201, answer.text
    codes: list[str] = answer.json()["codes"]
    return codes


async def join(door: Door, code: str, headers: dict[str, str] = GRACE) -> httpx.Response:
    return await door.http.post("/v1/user/join", json={"code": code}, headers=headers)


@pytest.mark.feature("P25")
async def test_only_members_submit_to_a_closed_leaderboard(closed: Door) -> None:
    answer = await closed.submit(headers=GRACE)
    assert code(answer) == (403, "no_access")
    assert "join" in answer.json()["detail"]
    assert (await closed.submit(headers=ADA)).status_code == 202
    answer = await closed.http.get("/v1/quota?problem=copy&gpu=CPU", headers=GRACE)
    assert code(answer) == (403, "no_access")


async def test_an_account_names_its_closed_leaderboards_alone() -> None:
    async with opened(MemoryLog()) as door:
        assert (await door.http.get("/v1/me", headers=ADA)).json()["leaderboards"] == []
        await door.admin("PUT", BOARD, visibility="closed", reason="a contest")
        assert (await door.http.get("/v1/me", headers=ADA)).json()["leaderboards"] == ["copy"]


async def test_a_misspelt_leaderboard_is_guessed_but_no_closed_one() -> None:
    async with opened(MemoryLog()) as door:
        detail = (await door.submit(problem="copu")).json()["detail"]
        assert detail == (
            "there is no leaderboard 'copu'; did you mean copy? "
            "`warpboard problem list` and GET /v1/problems list them"
        )
        await door.admin("PUT", BOARD, visibility="closed", reason="a contest")
        detail = (await door.submit(problem="copu")).json()["detail"]
        assert "copy" not in detail


async def test_submissions_of_a_closed_leaderboard_are_hidden(
    closed: Door,
) -> None:
    number = await closed.number()
    for method, path in (("POST", "/cancel"), ("DELETE", ""), ("POST", "/appeal")):
        body = {"text": "t"} if path == "/appeal" else None
        url = "/v1/submissions/{}" + path
        real = await closed.http.request(method, url.format(number), json=body, headers=GRACE)
        none = await closed.http.request(method, url.format(999), json=body, headers=GRACE)
        assert code(real) == code(none) == (404, "unknown_submission")
        assert real.json()["detail"] == none.json()["detail"].replace("999", str(number))


@pytest.mark.feature("C7")
async def test_an_invite_lets_one_participant_in(closed: Door) -> None:
    (invite,) = await invited(closed)
    assert len(invite) >= 22
    answer = await join(closed, invite)
    assert answer.json() == {"status": "ok", "leaderboards": ["copy"]}
    assert isinstance(closed.log.since(0)[-1].fact, InviteRedeemed)
    assert (await join(closed, invite)).status_code == 200
    assert (await closed.submit(headers=GRACE)).status_code == 202
    assert code(await join(closed, invite, EVE)) == (400, "invite_claimed")
    assert invite.encode() not in b"".join(event.body for event in closed.log.since(0))


@pytest.mark.feature("C7")
async def test_invites_are_listed_with_who_used_them(closed: Door) -> None:
    first, second = await invited(closed, 2)
    await join(closed, first)
    answer = await closed.http.get(f"/v1/admin/{BOARD}/invites", headers=ADA)
    used, free = sorted(answer.json()["items"], key=lambda invite: invite["participant"] is None)
    assert (used["code"], used["participant"], free["code"]) == (first, "grace", second)
    assert used["claimed_at"] is not None
    answer = await closed.http.get(f"/v1/admin/{BOARD}/invites", headers=EVE)
    assert code(answer) == (404, "unknown_leaderboard")


async def test_a_revoked_invite_ends_the_membership(closed: Door) -> None:
    used, free = await invited(closed, 2)
    await join(closed, used)
    for invite, was_claimed in ((used, True), (free, False)):
        path = f"/v1/admin/invites/{invite}"
        answer = await closed.http.request("DELETE", path, json={"reason": "r"}, headers=ADA)
        assert answer.json() == {"code": invite, "was_claimed": was_claimed}
        again = await closed.http.request("DELETE", path, json={"reason": "r"}, headers=ADA)
        assert code(again) == (404, "unknown_invite")
        assert code(await join(closed, invite, EVE)) == (400, "invalid_invite")
    assert code(await closed.submit(headers=GRACE)) == (403, "no_access")


@pytest.mark.feature("C7")
async def test_an_invite_expires(closed: Door) -> None:
    (invite,) = await invited(closed, expires_at=(now() - timedelta(seconds=1)).isoformat())
    assert code(await join(closed, invite)) == (400, "invite_expired")


async def test_invite_codes_cannot_be_guessed(closed: Door) -> None:
    (invite,) = await invited(closed)
    for _ in range(10):
        assert code(await join(closed, "wrong")) == (400, "invalid_invite")
    answer = await join(closed, invite)
    assert code(answer) == (429, "rate_limited")
    assert int(answer.headers["retry-after"]) > 60
    # Who sits beside them, behind the same address, is not locked out with them.
    assert (await join(closed, invite, EVE)).status_code == 200


async def test_many_invites_are_created_in_one_request(closed: Door) -> None:
    assert len(set(await invited(closed, 1100))) == 1100
    await closed.http.get(f"/v1/admin/{BOARD}/invites", headers=ADA)


@pytest.mark.feature("C13")
async def test_authors_and_operators_manage_a_leaderboard(closed: Door) -> None:
    body = {"visibility": "public", "reason": "over"}
    answer = await closed.http.put(f"/v1/admin/{BOARD}", json=body, headers=EVE)
    assert code(answer) == (404, "unknown_leaderboard")
    answer = await closed.http.put(f"/v1/admin/{BOARD}", json=body, headers=ADA)
    assert answer.status_code == 200
    answer = await closed.http.put(f"/v1/admin/{BOARD}", json=body, headers=EVE)
    assert code(answer) == (403, "not_yours")
    answer = await closed.http.put(f"/v1/admin/{BOARD}", json=body, headers={})
    assert code(answer) == (401, "missing_credential")
    assert (await closed.submit(headers=GRACE)).status_code == 202


async def test_a_single_file_gets_the_gpu_types_of_its_form(door: Door) -> None:
    files = {"reference.cu": CPP.replace("//!POPCORN gpus CPU\n", "").encode()}
    named = {**files, "warpboard.yml": b"gpus: [CPU]\n"}
    report = report_of(named, "heat")
    refused = await door.publish(files, ADA, slug="heat", report=report)
    assert code(refused) == (422, "bad_problem")
    assert "begin it with //!POPCORN gpus CPU" in refused.json()["detail"]
    answer = await door.publish(files, ADA, slug="heat", report=report, gpu=["CPU"])
    assert answer.status_code == 201, answer.text
    assert door.log.since(0)[-1].fact.gpus == ["CPU"]  # type: ignore[union-attr]  # the version


async def test_a_problem_can_be_closed_from_the_start(door: Door) -> None:
    files = [("files", ("task.yml", b"")), ("files", ("x.py", b""))]
    parts = {"slug": "secret", "visibility": "closed"}
    answer = await door.http.post("/v1/problems", data=parts, files=files, headers=ADA)
    assert answer.status_code == 422
    answer = await door.publish(FILES, ADA, **parts)
    assert (answer.status_code, answer.json()["problem_version"]) == (201, 1)
    changed = door.log.since(0)[-2].fact
    assert isinstance(changed, LeaderboardChanged)
    assert changed.visibility == "closed"
    assert code(await door.submit(headers=GRACE, problem="secret")) == (403, "no_access")


async def test_no_submission_is_accepted_after_the_deadline(door: Door) -> None:
    ends_at = (now() - timedelta(seconds=1)).isoformat()
    change = {"deadline_at": ends_at, "reason": "r"}
    refused = await door.admin("PUT", BOARD, **change)
    assert code(refused) == (422, "invalid_request")
    assert "UTC has passed, so nothing could be submitted" in refused.json()["detail"]
    assert (await door.admin("PUT", BOARD, **change, force=True)).status_code == 200
    # What is so already is not said twice.
    assert (await door.admin("PUT", BOARD, **change)).json()["event"] is None
    answer = await door.submit()
    assert code(answer) == (403, "deadline_passed")
    assert ends_at[:19] in answer.json()["detail"]
    later = (now() + timedelta(hours=1)).isoformat()
    await door.said(await door.admin("PUT", BOARD, deadline_at=later, reason="r"))
    assert (await door.submit()).status_code == 202
    await door.said(await door.admin("PUT", BOARD, deadline_at=None, reason="r"))
    same = await door.admin("PUT", BOARD, deadline_at=None, reason="r")
    assert same.json()["event"] is None
    assert code(await door.admin("PUT", BOARD, reason="r")) == (422, "invalid_request")


@pytest.mark.feature("A5")
async def test_with_practice_submissions_go_on_after_the_deadline_and_are_marked(
    door: Door,
) -> None:
    allowed = await door.said(await door.admin("PUT", BOARD, practice=True, reason="r"))
    assert isinstance(allowed, LeaderboardChanged)
    assert (allowed.has_practice, allowed.has_deadline) == (True, None)
    early = await door.submit()
    ends_at = now().isoformat()
    await door.said(await door.admin("PUT", BOARD, deadline_at=ends_at, reason="r", force=True))
    settings = (await door.http.get(f"/v1/{BOARD}")).json()
    assert settings["has_practice"] is True
    late = await door.submit(KERNEL + b"# late\n")
    numbers = [answer.json()["submissions"][0]["number"] for answer in (early, late)]
    marks = {seq: fact.is_practice for seq, _, fact in taken_in(door.log)}
    assert [marks[number] for number in numbers] == [False, True]
    await door.said(await door.admin("PUT", BOARD, practice=False, reason="r"))
    assert code(await door.submit(KERNEL + b"# later\n")) == (403, "deadline_passed")


async def test_a_repeat_of_a_timely_submission_is_never_late(door: Door) -> None:
    headers = ADA | {"Idempotency-Key": "k1"}
    first = await door.submit(headers=headers)
    ends_at = now().isoformat()
    await door.said(await door.admin("PUT", BOARD, deadline_at=ends_at, reason="r", force=True))
    again = await door.submit(headers=headers)
    assert again.status_code == 202
    assert again.json()["submissions"] == first.json()["submissions"]
    late = await door.submit(headers=ADA | {"Idempotency-Key": "k2"})
    assert code(late) == (403, "deadline_passed")


async def test_an_archived_leaderboard_accepts_no_submissions(door: Door) -> None:
    await door.said(await door.admin("POST", f"{BOARD}/archive", reason="old"))
    assert code(await door.submit()) == (403, "deadline_passed")
    assert code(await door.admin("POST", "leaderboards/nope/archive", reason="r"))[0] == 404


@pytest.mark.feature("P18")
async def test_a_withdrawal_cancels_first(door: Door) -> None:
    number = await door.number()
    path = f"/v1/submissions/{number}"
    assert code(await door.http.delete(path, headers=GRACE)) == (403, "not_yours")
    answer = await door.http.delete(path, headers=ADA)
    assert (answer.status_code, answer.json()["event"]) == (200, "SubmissionWithdrawn")
    cancelled, withdrawn = (event.fact for event in door.log.since(0)[-2:])
    assert isinstance(cancelled, SubmissionCancelRequested)
    assert isinstance(withdrawn, SubmissionWithdrawn)
    again = await door.http.delete(path, headers=ADA)
    assert (again.status_code, again.json()["event"]) == (200, None)


async def test_a_held_submission_cannot_be_withdrawn(door: Door) -> None:
    number = await door.number()
    await door.admin("POST", f"submissions/{number}/hold", rule="x", reason="r")
    event_count = len(door.log.since(0))
    answer = await door.http.delete(f"/v1/submissions/{number}", headers=ADA)
    assert code(answer) == (409, "under_review")
    assert len(door.log.since(0)) == event_count


@pytest.mark.feature("A3")
async def test_operators_withdraw_any_submission(door: Door) -> None:
    number = await door.number()
    await door.finish(number)
    body = {"reason": "asked for by mail"}
    answer = await door.http.request(
        "DELETE", f"/v1/submissions/{number}", json=body, headers=OPERATOR
    )
    fact = await door.said(answer)
    assert isinstance(fact, SubmissionWithdrawn)
    assert fact.reason == "asked for by mail"


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
async def test_an_impossible_date_is_refused(closed: Door, at: str) -> None:
    wish = {"leaderboards": ["copy"], "expires_at": at, "reason": "r"}
    for answer in (
        await closed.admin("PUT", BOARD, deadline_at=at, reason="r"),
        await closed.admin("POST", "participants/ada/ban", until_at=at, reason="r"),
        await closed.http.post("/v1/admin/invites", json=wish, headers=ADA),
    ):
        assert code(answer) == (422, "invalid_request")
