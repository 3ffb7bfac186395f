"""The client's admin commands, and what tier 2 adds to them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract_popcorn.conftest import token_of
from tests.contract_popcorn.polling import HONEST, NOBODYS, ended, refusal, submit
from tests.contract_popcorn.test_exports import read, wanted
from tests.contract_popcorn.wire import Answer, Wire, cli_id
from tests.support.people import add_problem
from tests.support.platform import ROOT, Running
from tests.support.repository import REPOSITORY

pytestmark = [pytest.mark.server, pytest.mark.long]


def sent(wire: Wire, method: str, path: str, body: object) -> Answer:
    """A request with JSON and any method."""
    data = json.dumps(body).encode()
    kind = ["content-type: application/json", f"content-length: {len(data)}"]
    return wire.exchange(method, path, [*kind, wire.credential, f"host: {wire.host}"], data)


def told(answer: Answer) -> Any:
    """The body of an answer that is well."""
    assert answer.status == 200, answer.body
    found = answer.json()
    assert found["status"] == "ok"
    return found


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
    found = told(admin.post_json("/admin/leaderboards/Closed-Board/visibility", body))
    assert found["visibility"] == "closed"
    return "closed-board"


def test_stats_count_in_numbers_and_seconds(admin: Wire, ada: Wire) -> None:
    ended(ada, submit(ada))
    for query in ("", "?last_day_only=true", "?leaderboard_name=Identity"):
        stats = told(admin.get(f"/admin/stats{query}"))["stats"]
        for key in ("num_submissions", "sub_waiting", "num_users", "num_unique_codes"):
            assert type(stats[key]) is int, key
        assert stats["num_submissions"] >= 1
        assert type(stats["num_run.CPU"]) is int
        assert stats["runs_passed.CPU"] <= stats["num_run.CPU"]
        assert stats["total_runtime.CPU"] > 0
    last_day = told(admin.get("/admin/stats?last_day_only=true"))["stats"]
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
    assert closed not in [one["name"] for one in eve.get("/leaderboards?state=all").json()]
    body = {"leaderboards": [closed.upper()], "count": 2}
    made = told(admin.post_json("/admin/invites", body))
    assert made["leaderboards"] == [closed]
    first, second = made["codes"]
    # 128 random bits, in a form that no command line takes for a flag.
    assert re.fullmatch(r"[a-z2-7]{26}", first)
    for _ in range(2):
        assert told(eve.post_json("/user/join", {"code": first}))["leaderboards"] == [closed]
    assert eve.get(f"/gpus/{closed}").status == 200
    assert closed in [one["name"] for one in eve.get("/leaderboards").json()]
    number = submit(eve, board=closed)
    assert ended(eve, number)["job"]["status"] == "succeeded"
    mallory = Wire(nobody.base, cli_id(token_of(platform, "mallory")))
    refusal(mallory.post_json("/user/join", {"code": first}), 400, "invite_claimed")
    refusal(mallory.get(f"/user/submissions/{number}"), 404, "unknown_submission")
    _check_invites(admin, closed, first, second)
    refusal(mallory.post_json("/user/join", {"code": second}), 400, "invalid_invite")


def _check_invites(admin: Wire, closed: str, first: str, second: str) -> None:
    listed = told(admin.get(f"/admin/leaderboards/{closed}/invites"))["invites"]
    by_code = {one["code"]: one for one in listed}
    assert isinstance(by_code[first]["user_id"], str)
    assert by_code[first]["user_name"] == "eve"
    assert by_code[second]["user_id"] is None
    assert by_code[second]["created_at"].endswith("Z")
    assert told(admin.delete(f"/admin/invites/{second}"))["was_claimed"] is False
    refusal(admin.delete("/admin/invites/nothing"), 404, "unknown_invite")


def test_point_08_a_ban_of_somebody_called_test_reaches_the_ban(
    admin: Wire, platform: Running, nobody: Wire
) -> None:
    banned = Wire(nobody.base, cli_id(token_of(platform, "test")))
    assert banned.get("/user/submissions").status == 200
    found = told(admin.post_json("/admin/ban/test", {"reason": "shared a key"}))
    assert found == {"status": "ok", "user_id": "test", "banned": True}
    refusal(banned.post_file("/submission/identity/CPU/test", HONEST), 403, "user_banned")
    assert told(admin.delete("/admin/ban/test"))["banned"] is False
    assert banned.post_file(f"/submission/identity/{NOBODYS}/test", HONEST).status == 202


@pytest.mark.parametrize("slug", ["admin", "user", "submission", "v1", "jobs", "runner_queue"])
def test_point_08_a_reserved_name_is_no_problems(platform: Running, slug: str) -> None:
    with pytest.raises(AssertionError, match="reserved"):
        _publish_as(platform, slug)


def _publish_as(platform: Running, slug: str) -> None:
    folder = ROOT / "problems" / "identity"
    files = [("files", (one.name, one.read_bytes())) for one in folder.iterdir() if one.is_file()]
    headers = {"Warpboard-Participant": "author"}
    answer = httpx.post(
        f"{platform.url}/v1/problems", data={"slug": slug}, files=files, headers=headers, timeout=30
    )
    assert answer.status_code == 201, answer.text


def test_limits_are_put_shown_and_lifted(admin: Wire) -> None:
    path = "/admin/leaderboards/identity/rate-limits"
    body = {"mode_category": "leaderboard", "max_submissions_per_hour": 500}
    whole = body | {"max_submissions_per_hour": 500.0}
    assert told(sent(admin, "PUT", path, whole))["max_submissions_per_hour"] == 500
    assert told(admin.get(path))["rate_limits"] == [body]
    told(admin.delete(f"{path}/leaderboard"))
    assert told(admin.get(path))["rate_limits"] == []
    strange = {"mode_category": "dance", "max_submissions_per_hour": 1}
    refusal(sent(admin, "PUT", path, strange), 400, "bad_query")
    wordy = body | {"max_submissions_per_hour": False}
    refusal(sent(admin, "PUT", path, wordy), 422, "invalid_request")


def test_submissions_of_a_leaderboard_are_listed_and_deleted_by_name(
    admin: Wire, platform: Running, nobody: Wire
) -> None:
    name = "leaver"
    leaver = Wire(nobody.base, cli_id(token_of(platform, name)))
    number = submit(leaver)
    ended(leaver, number)
    found = told(admin.get("/admin/leaderboards/Identity/submissions?limit=3&offset=0"))
    assert (found["limit"], found["offset"]) == (3, 0)
    assert number in found["submission_ids"]
    board = next(one for one in nobody.get("/leaderboards").json() if one["name"] == "identity")
    query = f"leaderboard_id={board['id']}&user_name={name}"
    gone = told(admin.delete(f"/admin/submissions?{query}"))
    assert gone["deleted_submissions"] == 1
    assert leaver.get("/user/submissions").json() == []


def test_a_leaderboard_is_made_of_a_configured_folder_alone(admin: Wire) -> None:
    body = {"directory": "identity"}
    assert told(admin.post_json("/admin/leaderboards", body))["leaderboard"] == "identity-dev"
    (board,) = [
        one for one in admin.get("/leaderboards?state=all").json() if one["name"] == "identity-dev"
    ]
    assert board["deadline"] is not None
    for directory in ("../identity", "/etc", "nothing", "."):
        refusal(
            admin.post_json("/admin/leaderboards", {"directory": directory}), 400, "bad_directory"
        )
    refusal(admin.post_json("/admin/leaderboards", {"directory": "broken"}), 400, "bad_directory")


def test_a_leaderboard_with_submissions_is_archived_by_force_alone(admin: Wire, ada: Wire) -> None:
    told(admin.post_json("/admin/leaderboards", {"directory": "histogram"}))
    ended(ada, submit(ada, board="histogram-dev"))
    refusal(admin.delete("/admin/leaderboards/histogram-dev"), 409, "has_submissions")
    found = told(admin.delete("/admin/leaderboards/histogram-dev?force=true"))
    assert found["leaderboard"] == "histogram-dev"
    assert "histogram-dev" not in [one["name"] for one in ada.get("/leaderboards").json()]


def test_problems_of_a_listed_repository_are_published(admin: Wire) -> None:
    body = {"repository": REPOSITORY, "branch": "main", "force": False}
    dry = told(admin.post_json("/admin/update-problems", body | {"dry_run": True}))
    found = told(admin.post_json("/admin/update-problems", body))
    # Another test here may have published it before.
    done = [*found["created"], *(one["name"] for one in found["skipped"])]
    assert sorted(done) == ["from-a-set", "held-back"]
    assert "held-back" not in found["created"]
    # What is only said has not happened: the next one finds all of it still to do.
    for head in ("created", "updated", "errors"):
        assert dry[head] == found[head]
    assert sorted(one["name"] for one in found["errors"]) == ["long-over", "not-there"]
    again = told(admin.post_json("/admin/update-problems", body | {"problem_set": "good"}))
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
    told(admin.post_json("/admin/leaderboards", {"directory": "late"}))
    path, slug = "/v1/admin/leaderboards/late-dev", "late-dev"
    body = {"deadline_at": "2026-01-02T03:04:05Z", "reason": "it is over", "force": True}
    assert sent(admin, "PUT", path, body).status == 200
    yield slug
    assert sent(admin, "PUT", path, body | {"deadline_at": None}).status == 200


def test_after_the_deadline_an_operator_alone_submits_for_others(
    admin: Wire, ada: Wire, over: str
) -> None:
    path = f"/submission/{over}/CPU/leaderboard"
    detail = refusal(ada.post_file(path, HONEST), 403, "deadline_passed")
    assert "2026-01-02T03:04:05" in detail
    assert over not in [one["name"] for one in ada.get("/leaderboards").json()]
    assert over in [one["name"] for one in ada.get("/leaderboards?state=ended").json()]
    both = Wire(admin.base, f"{admin.credential}\r\n{ada.credential}")
    answer = both.post_file(f"/admin{path}", HONEST)
    assert answer.status == 202, answer.body
    unranked = both.post_file(f"/admin/submission/{over}/CPU/test", HONEST)
    held = ended(ada, answer.json()["details"]["id"])
    assert held["job"]["status"] == "failed"
    assert "held for review" in held["job"]["error"]
    counted = both.post_file(f"/admin{path}?rank=true", HONEST + b"# again\n")
    ends = ended(ada, counted.json()["details"]["id"])
    assert ends["job"]["status"] == "succeeded", ends["job"]
    refusal(ada.post_file(f"/admin{path}", HONEST), 401, "missing_credential")
    # Now that it is over, what was ranked is everybody's, and nothing else is.
    assert ended(ada, unranked.json()["details"]["id"])["done"]
    shown = read(admin.post_json("/admin/export", wanted(over, private=False)).body)
    codes = {one["submission_id"]: one["code"].encode() for one in shown}
    assert codes == {ends["id"]: HONEST + b"# again\n", held["id"]: HONEST}


def test_a_live_submission_is_cancelled_and_deleted_in_one(ada: Wire) -> None:
    number = submit(ada, "leaderboard")
    assert ada.delete(f"/user/submissions/{number}").json()["status"] == "ok"
    refusal(ada.get(f"/user/submissions/{number}"), 404, "unknown_submission")
