"""The client's admin commands, and what tier 2 adds to them."""

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract_popcorn.conftest import token_of
from tests.contract_popcorn.polling import HONEST, NOBODYS, refusal, submit, wait_until_done
from tests.contract_popcorn.test_exports import read, wanted
from tests.contract_popcorn.wire import Answer, Wire, cli_id
from tests.support.people import add_problem
from tests.support.platform import ROOT, Running
from tests.support.repository import REPOSITORY

pytestmark = [pytest.mark.server, pytest.mark.long]


def send_json(wire: Wire, method: str, path: str, body: object) -> Answer:
    """A request with JSON and any method."""
    data = json.dumps(body).encode()
    kind = ["content-type: application/json", f"content-length: {len(data)}"]
    return wire.exchange(method, path, [*kind, wire.credential, f"host: {wire.host}"], data)


def ok_body(answer: Answer) -> Any:
    """The body of an answer that is well."""
    assert answer.status == 200, answer.body
    body = answer.json()
    assert body["status"] == "ok"
    return body


@pytest.fixture(scope="module")
def closed(platform: Running, admin: Wire, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A leaderboard for its members alone."""
    folder = tmp_path_factory.mktemp("problems") / "closed-board"
    folder.mkdir()
    for path in (ROOT / "problems" / "identity").iterdir():
        if path.is_file():
            Path(folder, path.name).write_bytes(path.read_bytes())
    add_problem(platform.url, folder)
    body = {"visibility": "closed"}
    changed = ok_body(admin.post_json("/admin/leaderboards/Closed-Board/visibility", body))
    assert changed["visibility"] == "closed"
    return "closed-board"


@pytest.mark.feature("A2")
def test_stats_count_in_numbers_and_seconds(admin: Wire, ada: Wire) -> None:
    wait_until_done(ada, submit(ada))
    for query in ("", "?last_day_only=true", "?leaderboard_name=Identity"):
        stats = ok_body(admin.get(f"/admin/stats{query}"))["stats"]
        for key in ("num_submissions", "sub_waiting", "num_users", "num_unique_codes"):
            assert type(stats[key]) is int, key
        assert stats["num_submissions"] >= 1
        assert type(stats["num_run.CPU"]) is int
        assert stats["runs_passed.CPU"] <= stats["num_run.CPU"]
        assert stats["total_runtime.CPU"] > 0
    last_day = ok_body(admin.get("/admin/stats?last_day_only=true"))["stats"]
    assert any(key.startswith("total.") for key in last_day)


def test_what_is_not_there_cannot_be_deleted(admin: Wire) -> None:
    for strange in ("999999999", "0", "one"):
        refusal(admin.delete(f"/admin/submissions/{strange}"), 404, "unknown_submission")


def test_a_closed_leaderboard_is_joined_with_a_code(
    admin: Wire, platform: Running, nobody: Wire, closed: str
) -> None:
    eve = Wire(nobody.base, cli_id(token_of(platform, "eve")))
    submitted = f"/submission/{closed}/CPU/test"
    refusal(nobody.get(f"/gpus/{closed}"), 401, "missing_credential")
    refusal(eve.get(f"/gpus/{closed}"), 403, "no_access")
    assert "join" in refusal(eve.post_file(submitted, HONEST), 403, "no_access")
    assert closed not in [
        leaderboard["name"] for leaderboard in eve.get("/leaderboards?state=all").json()
    ]
    body = {"leaderboards": [closed.upper()], "count": 2}
    invites = ok_body(admin.post_json("/admin/invites", body))
    assert invites["leaderboards"] == [closed]
    first, second = invites["codes"]
    # 128 random bits, in a form that no command line takes for a flag.
    assert re.fullmatch(r"[a-z2-7]{26}", first)
    for _ in range(2):
        assert ok_body(eve.post_json("/user/join", {"code": first}))["leaderboards"] == [closed]
    assert eve.get(f"/gpus/{closed}").status == 200
    assert closed in [leaderboard["name"] for leaderboard in eve.get("/leaderboards").json()]
    number = submit(eve, board=closed)
    assert wait_until_done(eve, number)["job"]["status"] == "succeeded"
    mallory = Wire(nobody.base, cli_id(token_of(platform, "mallory")))
    refusal(mallory.post_json("/user/join", {"code": first}), 400, "invite_claimed")
    refusal(mallory.get(f"/user/submissions/{number}"), 404, "unknown_submission")
    _check_invites(admin, closed, first, second)
    refusal(mallory.post_json("/user/join", {"code": second}), 400, "invalid_invite")


def _check_invites(admin: Wire, closed: str, first: str, second: str) -> None:
    invites = ok_body(admin.get(f"/admin/leaderboards/{closed}/invites"))["invites"]
    by_code = {invite["code"]: invite for invite in invites}
    assert isinstance(by_code[first]["user_id"], str)
    assert by_code[first]["user_name"] == "eve"
    assert by_code[second]["user_id"] is None
    assert by_code[second]["created_at"].endswith("Z")
    assert ok_body(admin.delete(f"/admin/invites/{second}"))["was_claimed"] is False
    refusal(admin.delete("/admin/invites/nothing"), 404, "unknown_invite")


def test_point_08_a_ban_of_somebody_called_test_reaches_the_ban(
    admin: Wire, platform: Running, nobody: Wire
) -> None:
    banned = Wire(nobody.base, cli_id(token_of(platform, "test")))
    assert banned.get("/user/submissions").status == 200
    ban = ok_body(admin.post_json("/admin/ban/test", {"reason": "shared a key"}))
    assert ban == {"status": "ok", "user_id": "test", "banned": True}
    refusal(banned.post_file("/submission/identity/CPU/test", HONEST), 403, "user_banned")
    assert ok_body(admin.delete("/admin/ban/test"))["banned"] is False
    assert banned.post_file(f"/submission/identity/{NOBODYS}/test", HONEST).status == 202


@pytest.mark.parametrize("slug", ["admin", "user", "submission", "v1", "jobs", "runner_queue"])
def test_point_08_a_reserved_name_is_no_problems(platform: Running, slug: str) -> None:
    with pytest.raises(AssertionError, match="reserved"):
        _publish_as(platform, slug)


def _publish_as(platform: Running, slug: str) -> None:
    folder = ROOT / "problems" / "identity"
    files = [
        ("files", (path.name, path.read_bytes())) for path in folder.iterdir() if path.is_file()
    ]
    headers = {"Warpboard-Participant": "author"}
    answer = httpx.post(
        f"{platform.url}/v1/problems", data={"slug": slug}, files=files, headers=headers, timeout=30
    )
    assert answer.status_code == 201, answer.text


def test_limits_are_put_shown_and_lifted(admin: Wire) -> None:
    path = "/admin/leaderboards/identity/rate-limits"
    body = {"mode_category": "leaderboard", "max_submissions_per_hour": 500}
    body_with_float = body | {"max_submissions_per_hour": 500.0}
    assert (
        ok_body(send_json(admin, "PUT", path, body_with_float))["max_submissions_per_hour"] == 500
    )
    assert ok_body(admin.get(path))["rate_limits"] == [body]
    ok_body(admin.delete(f"{path}/leaderboard"))
    assert ok_body(admin.get(path))["rate_limits"] == []
    strange = {"mode_category": "dance", "max_submissions_per_hour": 1}
    refusal(send_json(admin, "PUT", path, strange), 400, "bad_query")
    wordy = body | {"max_submissions_per_hour": False}
    refusal(send_json(admin, "PUT", path, wordy), 422, "invalid_request")


@pytest.mark.feature("A3")
def test_submissions_of_a_leaderboard_are_listed_and_deleted_by_name(
    admin: Wire, platform: Running, nobody: Wire
) -> None:
    name = "leaver"
    leaver = Wire(nobody.base, cli_id(token_of(platform, name)))
    number = submit(leaver)
    wait_until_done(leaver, number)
    page = ok_body(admin.get("/admin/leaderboards/Identity/submissions?limit=3&offset=0"))
    assert (page["limit"], page["offset"]) == (3, 0)
    assert number in page["submission_ids"]
    board = next(
        leaderboard
        for leaderboard in nobody.get("/leaderboards").json()
        if leaderboard["name"] == "identity"
    )
    query = f"leaderboard_id={board['id']}&user_name={name}"
    gone = ok_body(admin.delete(f"/admin/submissions?{query}"))
    assert gone["deleted_submissions"] == 1
    assert leaver.get("/user/submissions").json() == []


def test_a_leaderboard_is_made_of_a_configured_folder_alone(admin: Wire) -> None:
    body = {"directory": "identity"}
    assert ok_body(admin.post_json("/admin/leaderboards", body))["leaderboard"] == "identity-dev"
    (board,) = [
        leaderboard
        for leaderboard in admin.get("/leaderboards?state=all").json()
        if leaderboard["name"] == "identity-dev"
    ]
    assert board["deadline"] is not None
    for directory in ("../identity", "/etc", "nothing", "."):
        refusal(
            admin.post_json("/admin/leaderboards", {"directory": directory}), 400, "bad_directory"
        )
    refusal(admin.post_json("/admin/leaderboards", {"directory": "broken"}), 400, "bad_directory")


def test_a_change_is_answered_once_the_lists_show_it(admin: Wire, platform: Running) -> None:
    ranker = platform.pid("ranker")
    assert ranker is not None
    os.kill(ranker, signal.SIGSTOP)
    resume = threading.Timer(1.0, os.kill, (ranker, signal.SIGCONT))
    resume.start()
    try:
        ok_body(admin.post_json("/admin/leaderboards", {"directory": "identity"}))
        assert resume.finished.is_set(), "answered while the lists could not show it"
    finally:
        resume.join()


def test_a_leaderboard_with_submissions_is_archived_by_force_alone(admin: Wire, ada: Wire) -> None:
    ok_body(admin.post_json("/admin/leaderboards", {"directory": "left"}))
    wait_until_done(ada, submit(ada, board="left-dev"))
    refusal(admin.delete("/admin/leaderboards/left-dev"), 409, "has_submissions")
    archived = ok_body(admin.delete("/admin/leaderboards/left-dev?force=true"))
    assert archived["leaderboard"] == "left-dev"
    assert "left-dev" not in [
        leaderboard["name"] for leaderboard in ada.get("/leaderboards").json()
    ]


@pytest.mark.feature("C1")
def test_problems_of_a_listed_repository_are_published(admin: Wire) -> None:
    body = {"repository": REPOSITORY, "branch": "main", "force": False}
    dry = ok_body(admin.post_json("/admin/update-problems", body | {"dry_run": True}))
    results = ok_body(admin.post_json("/admin/update-problems", body))
    # Another test here may have published it before.
    slugs = [*results["created"], *(skipped["name"] for skipped in results["skipped"])]
    assert sorted(slugs) == ["from-a-set", "held-back"]
    assert "held-back" not in results["created"]
    # What is only said has not happened: the next one finds all of it still to do.
    for head in ("created", "updated", "errors"):
        assert dry[head] == results[head]
    assert sorted(skipped["name"] for skipped in results["errors"]) == ["long-over", "not-there"]
    again = ok_body(admin.post_json("/admin/update-problems", body | {"problem_set": "good"}))
    assert (again["created"], again["errors"]) == ([], [])
    assert again["skipped"] == [{"name": "from-a-set", "reason": "no changes"}]
    nosuch = admin.post_json("/admin/update-problems", body | {"problem_set": "nosuch"})
    sentence = refusal(nosuch, 404, "unknown_problem_set")
    assert "'nosuch'" in sentence
    assert "good" in sentence
    strange = body | {"repository": "somebody/else"}
    refusal(admin.post_json("/admin/update-problems", strange), 400, "unknown_repository")
    refusal(admin.post_json("/admin/update-problems", body | {"branch": "-x"}), 400, "bad_branch")


@pytest.fixture
def over(admin: Wire) -> Iterator[str]:
    """A leaderboard whose deadline has passed."""
    ok_body(admin.post_json("/admin/leaderboards", {"directory": "late"}))
    path, slug = "/v1/admin/leaderboards/late-dev", "late-dev"
    body = {"deadline_at": "2026-01-02T03:04:05Z", "reason": "it is over", "force": True}
    assert send_json(admin, "PUT", path, body).status == 200
    yield slug
    assert send_json(admin, "PUT", path, body | {"deadline_at": None}).status == 200


@pytest.mark.feature("A5")
def test_after_the_deadline_an_operator_alone_submits_for_others(
    admin: Wire, ada: Wire, over: str
) -> None:
    # Without a licence of its author, a source is in no public export.
    url, who = f"{ada.base}/v1/me/preferences", {"Warpboard-Participant": "ada"}
    assert httpx.put(url, json={"licence": "MIT"}, headers=who, timeout=30).status_code == 200
    path = f"/submission/{over}/CPU/leaderboard"
    detail = refusal(ada.post_file(path, HONEST), 403, "deadline_passed")
    assert "2026-01-02T03:04:05" in detail
    assert over not in [leaderboard["name"] for leaderboard in ada.get("/leaderboards").json()]
    assert over in [
        leaderboard["name"] for leaderboard in ada.get("/leaderboards?state=ended").json()
    ]
    both = Wire(admin.base, f"{admin.credential}\r\n{ada.credential}")
    answer = both.post_file(f"/admin{path}", HONEST)
    assert answer.status == 202, answer.body
    unranked = both.post_file(f"/admin/submission/{over}/CPU/test", HONEST)
    held = wait_until_done(ada, answer.json()["details"]["id"])
    assert held["job"]["status"] == "failed"
    assert "held for review" in held["job"]["error"]
    counted = both.post_file(f"/admin{path}?rank=true", HONEST + b"# again\n")
    ends = wait_until_done(ada, counted.json()["details"]["id"])
    assert ends["job"]["status"] == "succeeded", ends["job"]
    refusal(ada.post_file(f"/admin{path}", HONEST), 401, "missing_credential")
    # Now that it is over, what was ranked is everybody's, and nothing else is.
    assert wait_until_done(ada, unranked.json()["details"]["id"])["done"]
    public_rows = read(admin.post_json("/admin/export", wanted(over, private=False)).body)
    codes = {
        leaderboard["submission_id"]: leaderboard["code"].encode() for leaderboard in public_rows
    }
    assert codes == {ends["id"]: HONEST + b"# again\n", held["id"]: HONEST}


def test_a_live_submission_is_cancelled_and_deleted_in_one(ada: Wire) -> None:
    accepted = ada.post_file(f"/submission/identity/{NOBODYS}/leaderboard", HONEST)
    number = accepted.json()["details"]["id"]
    assert ada.delete(f"/user/submissions/{number}").json()["status"] == "ok"
    refusal(ada.get(f"/user/submissions/{number}"), 404, "unknown_submission")
