"""What is refused, in which order, and how the refusal reads in a terminal."""

import json

import pytest

from tests.contract_popcorn.polling import HONEST, NOBODYS, refusal, submit, wait_until_done
from tests.contract_popcorn.wire import Wire, bearer, cli_id

pytestmark = [pytest.mark.server, pytest.mark.long]

SUBMIT = "/submission/identity/CPU/test"
WAITS = f"/submission/identity/{NOBODYS}/test"


def test_who_sends_no_credential_is_told_to_send_one(nobody: Wire) -> None:
    refusal(nobody.post_file(SUBMIT, HONEST), 401, "missing_credential")
    refusal(nobody.get("/user/submissions"), 401, "missing_credential")


@pytest.mark.parametrize("secret", ["wb_unknown", "x" * 43])
def test_an_unknown_credential_is_refused_where_one_is_needed(nobody: Wire, secret: str) -> None:
    stranger = Wire(nobody.base, cli_id(secret))
    refusal(stranger.post_file(SUBMIT, HONEST), 401, "invalid_credential")
    assert stranger.get("/leaderboards").status == 200, "the picker works before linking"


@pytest.mark.parametrize("secret", ["", "None"])
def test_nothing_as_an_admin_token_never_matches(nobody: Wire, secret: str) -> None:
    nothing = Wire(nobody.base, bearer(secret))
    for answer in (nothing.post_nothing("/admin/start"), nothing.get("/admin/stats")):
        refusal(answer, 401, "missing_credential")


def test_a_participants_header_makes_nobody_an_admin(platform_admin_id: Wire) -> None:
    assert platform_admin_id.post_nothing("/admin/stop").status == 401


@pytest.fixture
def platform_admin_id(admin: Wire) -> Wire:
    """The admin's token, in the header of participants."""
    return Wire(admin.base, cli_id(admin.credential.rpartition(" ")[2]))


def test_two_people_in_one_request_are_refused(ada: Wire, grace: Wire) -> None:
    other = grace.credential.partition(": ")[2]
    lines = [ada.credential, f"x-web-auth-id: {other}", f"host: {ada.host}"]
    refusal(ada.exchange("GET", "/user/submissions", lines), 400, "conflicting_credentials")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        # Each is wrong in all that comes after, too: the first thing wrong is named.
        ("/submission/nothing/NOPE/dance", 400, "unknown_mode"),
        ("/submission/nothing/NOPE/test", 404, "unknown_leaderboard"),
        ("/submission/identity/NOPE/test", 400, "unknown_gpu"),
    ],
)
def test_the_first_thing_wrong_is_named(ada: Wire, path: str, status: int, code: str) -> None:
    detail = refusal(ada.post_file(path, b"\xff", "x.exe"), status, code)
    if code == "unknown_gpu":
        assert "CPU" in detail


@pytest.mark.parametrize(
    ("data", "name", "status", "code"),
    [
        (b"", "submission.py", 400, "empty_file"),
        (b"\xff\xfe", "submission.py", 400, "not_utf8"),
        (HONEST, "submission.exe", 400, "bad_extension"),
        (b"#!POPCORN dance\n" + HONEST, "submission.py", 400, "bad_directive"),
        (b"#!POPCORN leaderboard other\n" + HONEST, "submission.py", 400, "leaderboard_mismatch"),
        (b"#" * 1_000_001, "submission.py", 413, "file_too_large"),
        (b"#" * 3_000_000, "submission.py", 413, "file_too_large"),
        (b"PK", "all.zip", 415, "archive_not_supported"),
        (b"PK", "all.tar.gz", 415, "archive_not_supported"),
    ],
)
def test_a_file_that_cannot_be_taken_is_refused(
    ada: Wire, data: bytes, name: str, status: int, code: str
) -> None:
    for path in (SUBMIT, "/identity/CPU/test"):
        refusal(ada.post_file(path, data, name), status, code)


def test_a_request_without_a_file_is_refused(ada: Wire) -> None:
    answer = ada.post_json(SUBMIT, {"file": "x"})
    refusal(answer, 400, "bad_upload")


def test_anothers_submission_is_forbidden_and_none_is_unknown(ada: Wire, grace: Wire) -> None:
    number = submit(ada)
    for answer in (
        grace.get(f"/user/submissions/{number}"),
        grace.delete(f"/user/submissions/{number}"),
    ):
        refusal(answer, 403, "not_yours")
    for strange in ("999999999", "one", "0", "99999999999999999999"):
        refusal(grace.get(f"/user/submissions/{strange}"), 404, "unknown_submission")
    wait_until_done(ada, number)


def test_a_used_up_quota_says_used_limit_and_seconds(admin: Wire, ada: Wire) -> None:
    limit = {"mode_category": "test", "max_submissions_per_hour": 0}
    path = "/admin/leaderboards/identity/rate-limits"
    put = admin.exchange(
        "PUT", path, [admin.credential, f"host: {admin.host}", *_json(limit)[0]], _json(limit)[1]
    )
    assert put.status == 200, put.body
    try:
        detail = refusal(ada.post_file(SUBMIT, HONEST), 429, "quota_exceeded")
        assert "0" in detail
        assert admin.get(path).json()["rate_limits"] == [limit]
    finally:
        assert admin.delete(f"{path}/test").status == 200
    assert ada.post_file(WAITS, HONEST).status == 202


def _json(body: object) -> tuple[list[str], bytes]:
    data = json.dumps(body).encode()
    return ["content-type: application/json", f"content-length: {len(data)}"], data


def test_stopped_intake_refuses_before_anything_else_is_looked_at(admin: Wire, ada: Wire) -> None:
    assert admin.post_nothing("/admin/stop").json() == {"status": "ok", "accepts_jobs": False}
    try:
        assert admin.post_nothing("/admin/stop").status == 200, "a second stop changes nothing"
        answer = ada.post_file("/submission/nothing/NOPE/dance", b"")
        refusal(answer, 503, "submissions_paused")
    finally:
        assert admin.post_nothing("/admin/start").json() == {"status": "ok", "accepts_jobs": True}
    assert ada.post_file(WAITS, HONEST).status == 202
