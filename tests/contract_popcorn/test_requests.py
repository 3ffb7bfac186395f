"""What the client sends and reads: paths, uploads, lists, types."""

import re
from typing import Any

import pytest

from tests.contract_popcorn.conftest import Ranked
from tests.contract_popcorn.polling import (
    HONEST,
    NOBODYS,
    poll_until_done,
    refusal,
    submit,
    wait_until_done,
)
from tests.contract_popcorn.wire import Wire, multipart

pytestmark = [pytest.mark.server, pytest.mark.long]

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\Z")


def test_point_02_a_base_address_may_end_in_a_slash(ada: Wire, nobody: Wire) -> None:
    for base in (nobody.base, f"{nobody.base}/", f"{nobody.base}//"):
        assert Wire(base).get("/leaderboards").status == 200
        assert Wire(base).get("/gpus/identity/").json()[0] == "CPU"
    slashed = Wire(f"{ada.base}/", ada.credential)
    answer = slashed.post_file(f"/submission/identity/{NOBODYS}/test", HONEST)
    assert answer.status == 202, "a POST to //submission/... is no redirect"


@pytest.mark.parametrize("path", ["/leaderboards/", "/user//submissions", "//health//"])
def test_odd_paths_are_answered_and_never_redirected(ada: Wire, path: str) -> None:
    assert ada.get(path).status == 200


def test_the_picker_gets_whole_leaderboards(nobody: Wire) -> None:
    leaderboards = nobody.get("/leaderboards").json()
    assert [
        leaderboard["name"] for leaderboard in leaderboards if leaderboard["name"] == "identity"
    ] == ["identity"]
    for leaderboard in leaderboards:
        assert type(leaderboard["id"]) is int
        assert 0 < leaderboard["id"] < 2**53
        assert isinstance(leaderboard["task"], dict)
        assert leaderboard["task"]["lang"] in ("py", "cu")
        assert isinstance(leaderboard["name"], str)
        assert isinstance(leaderboard["description"], str)
        assert len(leaderboard["description"]) <= 400
        assert set(leaderboard) == {
            "id",
            "name",
            "title",
            "description",
            "task",
            "deadline",
            "gpu_types",
            "visibility",
            "problem_version",
            "state",
        }


def test_gpu_types_come_in_the_order_of_the_problem(nobody: Wire) -> None:
    gpu_types = nobody.get("/gpus/IDENTITY").json()
    assert gpu_types[:3] == ["CPU", "H100", "H200"]
    refusal(nobody.get("/gpus/nothing"), 404, "unknown_leaderboard")


@pytest.mark.feature("P4")
def test_an_accepted_file_is_answered_in_full(ada: Wire) -> None:
    answer = ada.post_file(f"/submission/identity/{NOBODYS}/test", HONEST)
    body = answer.json()
    assert answer.status == 202
    assert type(body["details"]["id"]) is int
    assert body["details"]["job_status_id"] == body["details"]["id"]
    assert body["status"] == "accepted"
    queue = body["runner_queue"]
    assert queue["gpu"] == NOBODYS
    assert type(queue["queued_jobs"]) is int
    assert queue["status"] == "no_agent"
    assert f"no agent with {NOBODYS} is alive: a submission waits" in body["warning"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]


def test_a_poll_has_every_field_of_the_client(ada: Wire) -> None:
    submission = wait_until_done(ada, submit(ada, "benchmark"))
    assert submission["job"]["status"] == "succeeded"
    assert INSTANT.match(submission["submission_time"])
    assert submission["leaderboard_name"] == "identity"
    assert submission["file_name"] == "submission.py"
    assert isinstance(submission["user_id"], str)
    assert submission["code"] == HONEST.decode()
    assert type(submission["leaderboard_id"]) is int
    assert submission["runner_queue"] is None
    assert [run["mode"] for run in submission["runs"]] == ["test", "benchmark"]
    for run in submission["runs"]:
        check_run(run)
    timed = submission["runs"][1]["result"]
    assert type(timed["benchmark-count"]) is int
    assert timed["benchmark.0.mean"] > 0


def check_run(run: dict[str, Any]) -> None:
    assert (type(run["secret"]), type(run["passed"])) == (bool, bool)
    assert run["runner"] == "CPU"
    assert INSTANT.match(run["start_time"])
    assert INSTANT.match(run["end_time"])
    assert run["score"] is None or run["score"] > 0


def test_a_ranked_run_has_its_score_in_seconds(ada: Wire, ranked: Ranked) -> None:
    submission = wait_until_done(ada, ranked.number)
    assert submission["job"]["status"] == "succeeded", submission["job"]
    scored = [item for item in submission["runs"] if item["score"] is not None]
    assert [(item["mode"], item["secret"]) for item in scored] == [("leaderboard", False)]
    assert 0 < scored[0]["score"] < 10
    secret = [item for item in submission["runs"] if item["secret"]]
    assert secret
    assert all("result" not in item for item in secret)
    (list_item,) = [
        item
        for item in ada.get("/user/submissions?leaderboard=Identity&limit=50").json()
        if item["id"] == submission["id"]
    ]
    assert list_item["runs"] == [{"gpu_type": "CPU", "score": scored[0]["score"]}]
    assert submission["ranking"]["status"] == "ranked"


def test_statuses_come_in_order(ada: Wire) -> None:
    statuses = [
        poll["job"]["status"].partition(":")[0] for poll in poll_until_done(ada, submit(ada))
    ]
    order = ["pending", "running", "succeeded"]
    assert statuses == sorted(statuses, key=order.index)


def test_point_06_names_in_any_case_and_odd_file_names_are_taken(ada: Wire) -> None:
    names = ["a" * 37 + ".py", "nämé\u2603.py", "../../etc/x y.py"]
    for name in names:
        answer = ada.post_file(f"/submission/IDENTITY/{NOBODYS.lower()}/TEST", HONEST, name)
        assert answer.status == 202, answer.body
    own_list = ada.get("/user/submissions?leaderboard=IDENTITY&limit=3").json()
    assert [item["file_name"] for item in own_list] == ["x_y.py", "n_m__.py", "a" * 37 + ".py"]
    for item in own_list:
        assert all(text.isascii() for text in (item["file_name"], item["leaderboard_name"]))
        assert (type(item["id"]), type(item["done"])) == (int, bool)


def test_a_name_in_rfc_5987_is_a_files_name(ada: Wire) -> None:
    body = multipart(HONEST, "filename*=utf-8''n%C3%A4me.py")
    path = f"/submission/identity/{NOBODYS}/test"
    with ada.opened("POST", path, [ada.credential], body) as stream:
        answer = stream.whole()
    assert answer.status == 202, answer.body
    submission = ada.get(f"/user/submissions/{answer.json()['details']['id']}").json()
    assert submission["file_name"] == "n_me.py"


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "offset=-1", "offset=1.5"])
def test_a_list_refuses_odd_bounds(ada: Wire, query: str) -> None:
    refusal(ada.get(f"/user/submissions?{query}"), 400, "bad_query")


def test_a_list_goes_on_where_it_is_told(ada: Wire) -> None:
    for _ in range(3):
        assert ada.post_file(f"/submission/identity/{NOBODYS}/test", HONEST).status == 202
    full_list = ada.get("/user/submissions?limit=3").json()
    parts = [ada.get(f"/user/submissions?limit=1&offset={offset}").json() for offset in range(3)]
    assert [item["id"] for part in parts for item in part] == [item["id"] for item in full_list]
    numbers = [item["id"] for item in full_list]
    assert numbers == sorted(numbers, reverse=True)


def test_a_deleted_submission_is_gone_for_the_client(ada: Wire) -> None:
    number = submit(ada)
    wait_until_done(ada, number)
    answer = ada.delete(f"/user/submissions/{number}")
    assert (answer.status, answer.json()) == (200, {"status": "ok", "submission_id": number})
    refusal(ada.get(f"/user/submissions/{number}"), 404, "unknown_submission")
    own_list = ada.get("/user/submissions?limit=100").json()
    assert number not in [item["id"] for item in own_list]
    refusal(ada.delete(f"/user/submissions/{number}"), 404, "unknown_submission")


@pytest.mark.feature("A9")
@pytest.mark.parametrize("path", ["/health", "/healthz", "/readyz"])
def test_health_is_answered_as_the_client_asks(nobody: Wire, path: str) -> None:
    assert nobody.get(path).json()["status"] == "ok"


def test_the_queue_of_a_pool_is_there_for_all(nobody: Wire) -> None:
    queue = nobody.get("/runner_queue/cpu").json()
    assert (queue["gpu"], queue["status"]) == ("CPU", "available")
    refusal(nobody.get("/runner_queue/TPU"), 404, "not_found")


def test_the_ranking_and_its_count_are_there_for_all(
    ada: Wire, nobody: Wire, ranked: Ranked
) -> None:
    submission = wait_until_done(ada, ranked.number)
    rows = nobody.get("/submissions/identity/cpu?limit=100").json()
    (mine,) = [row for row in rows if row["user_name"] == "ada"]
    assert mine["user_id"] == submission["user_id"]
    assert (type(mine["submission_id"]), type(mine["rank"])) == (int, int)
    assert 0 < mine["submission_score"] < 10
    assert nobody.get("/submission_count/identity/CPU").json() == {"count": len(rows)}
    own = nobody.get(f"/submission_count/identity/CPU?user_id={submission['user_id']}").json()
    assert own == {"count": 1}
