"""What the client sends and reads: paths, uploads, lists, types."""

import re
from typing import Any

import pytest

from tests.contract_popcorn.conftest import Ranked
from tests.contract_popcorn.polling import HONEST, NOBODYS, ended, polled, refusal, submit
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
    found = nobody.get("/leaderboards").json()
    assert [one["name"] for one in found if one["name"] == "identity"] == ["identity"]
    for one in found:
        assert type(one["id"]) is int
        assert 0 < one["id"] < 2**53
        assert isinstance(one["task"], dict)
        assert one["task"]["lang"] in ("py", "cu")
        assert isinstance(one["name"], str)
        assert isinstance(one["description"], str)
        assert len(one["description"]) <= 400
        assert set(one) == {
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
    found = nobody.get("/gpus/IDENTITY").json()
    assert found[:3] == ["CPU", "H100", "H200"]
    refusal(nobody.get("/gpus/nothing"), 404, "unknown_leaderboard")


def test_an_accepted_file_is_answered_in_full(ada: Wire) -> None:
    answer = ada.post_file(f"/submission/identity/{NOBODYS}/test", HONEST)
    told = answer.json()
    assert answer.status == 202
    assert type(told["details"]["id"]) is int
    assert told["details"]["job_status_id"] == told["details"]["id"]
    assert told["status"] == "accepted"
    queue = told["runner_queue"]
    assert queue["gpu"] == NOBODYS
    assert type(queue["queued_jobs"]) is int
    assert queue["status"] == "no_agent"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]


def test_a_poll_has_every_field_of_the_client(ada: Wire) -> None:
    told = ended(ada, submit(ada, "benchmark"))
    assert told["job"]["status"] == "succeeded"
    assert INSTANT.match(told["submission_time"])
    assert told["leaderboard_name"] == "identity"
    assert told["file_name"] == "submission.py"
    assert isinstance(told["user_id"], str)
    assert told["code"] == HONEST.decode()
    assert type(told["leaderboard_id"]) is int
    assert told["runner_queue"] is None
    assert [one["mode"] for one in told["runs"]] == ["test", "benchmark"]
    for one in told["runs"]:
        check_run(one)
    timed = told["runs"][1]["result"]
    assert type(timed["benchmark-count"]) is int
    assert timed["benchmark.0.mean"] > 0


def check_run(run: dict[str, Any]) -> None:
    assert (type(run["secret"]), type(run["passed"])) == (bool, bool)
    assert run["runner"] == "CPU"
    assert INSTANT.match(run["start_time"])
    assert INSTANT.match(run["end_time"])
    assert run["score"] is None or run["score"] > 0


def test_a_ranked_run_has_its_score_in_seconds(ada: Wire, ranked: Ranked) -> None:
    told = ended(ada, ranked.number)
    assert told["job"]["status"] == "succeeded", told["job"]
    scored = [one for one in told["runs"] if one["score"] is not None]
    assert [(one["mode"], one["secret"]) for one in scored] == [("leaderboard", False)]
    assert 0 < scored[0]["score"] < 10
    secret = [one for one in told["runs"] if one["secret"]]
    assert secret
    assert all("result" not in one for one in secret)
    (listed,) = [
        one
        for one in ada.get("/user/submissions?leaderboard=Identity&limit=50").json()
        if one["id"] == told["id"]
    ]
    assert listed["runs"] == [{"gpu_type": "CPU", "score": scored[0]["score"]}]
    assert told["ranking"]["status"] == "ranked"


def test_statuses_come_in_order(ada: Wire) -> None:
    seen = [one["job"]["status"].partition(":")[0] for one in polled(ada, submit(ada))]
    order = ["pending", "running", "succeeded"]
    assert seen == sorted(seen, key=order.index)


def test_point_06_names_in_any_case_and_odd_file_names_are_taken(ada: Wire) -> None:
    names = ["a" * 37 + ".py", "nämé\u2603.py", "../../etc/x y.py"]
    for name in names:
        answer = ada.post_file(f"/submission/IDENTITY/{NOBODYS.lower()}/TEST", HONEST, name)
        assert answer.status == 202, answer.body
    listed = ada.get("/user/submissions?leaderboard=IDENTITY&limit=3").json()
    assert [one["file_name"] for one in listed] == ["x_y.py", "n_m__.py", "a" * 37 + ".py"]
    for one in listed:
        assert all(text.isascii() for text in (one["file_name"], one["leaderboard_name"]))
        assert (type(one["id"]), type(one["done"])) == (int, bool)


def test_a_name_in_rfc_5987_is_a_files_name(ada: Wire) -> None:
    body = multipart(HONEST, "filename*=utf-8''n%C3%A4me.py")
    path = f"/submission/identity/{NOBODYS}/test"
    with ada.opened("POST", path, [ada.credential], body) as stream:
        answer = stream.whole()
    assert answer.status == 202, answer.body
    told = ada.get(f"/user/submissions/{answer.json()['details']['id']}").json()
    assert told["file_name"] == "n_me.py"


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "offset=-1", "offset=1.5"])
def test_a_list_refuses_odd_bounds(ada: Wire, query: str) -> None:
    refusal(ada.get(f"/user/submissions?{query}"), 400, "bad_query")


def test_a_list_goes_on_where_it_is_told(ada: Wire) -> None:
    for _ in range(3):
        assert ada.post_file(f"/submission/identity/{NOBODYS}/test", HONEST).status == 202
    whole = ada.get("/user/submissions?limit=3").json()
    parts = [ada.get(f"/user/submissions?limit=1&offset={offset}").json() for offset in range(3)]
    assert [one["id"] for part in parts for one in part] == [one["id"] for one in whole]
    numbers = [one["id"] for one in whole]
    assert numbers == sorted(numbers, reverse=True)


def test_a_deleted_submission_is_gone_for_the_client(ada: Wire) -> None:
    number = submit(ada)
    ended(ada, number)
    answer = ada.delete(f"/user/submissions/{number}")
    assert (answer.status, answer.json()) == (200, {"status": "ok", "submission_id": number})
    refusal(ada.get(f"/user/submissions/{number}"), 404, "unknown_submission")
    listed = ada.get("/user/submissions?limit=100").json()
    assert number not in [one["id"] for one in listed]
    refusal(ada.delete(f"/user/submissions/{number}"), 404, "unknown_submission")


@pytest.mark.parametrize("path", ["/health", "/healthz", "/readyz"])
def test_health_is_answered_as_the_client_asks(nobody: Wire, path: str) -> None:
    assert nobody.get(path).json() == {"status": "ok"}


def test_the_queue_of_a_pool_is_there_for_all(nobody: Wire) -> None:
    told = nobody.get("/runner_queue/cpu").json()
    assert (told["gpu"], told["status"]) == ("CPU", "available")
    refusal(nobody.get("/runner_queue/TPU"), 404, "not_found")


def test_the_ranking_and_its_count_are_there_for_all(
    ada: Wire, nobody: Wire, ranked: Ranked
) -> None:
    told = ended(ada, ranked.number)
    rows = nobody.get("/submissions/identity/cpu?limit=5").json()
    (mine,) = [one for one in rows if one["user_name"] == "ada"]
    assert mine["user_id"] == told["user_id"]
    assert (type(mine["submission_id"]), type(mine["rank"])) == (int, int)
    assert 0 < mine["submission_score"] < 10
    assert nobody.get("/submission_count/identity/CPU").json() == {"count": len(rows)}
    own = nobody.get(f"/submission_count/identity/CPU?user_id={told['user_id']}").json()
    assert own == {"count": 1}
