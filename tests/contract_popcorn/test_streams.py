"""The event stream: framing, timing, profiles; and the profiler service."""

import base64
import io
import time
import zipfile
from typing import Any

import pytest

from tests.contract_popcorn.conftest import Ranked
from tests.contract_popcorn.polling import (
    HONEST,
    follow_stream,
    read_events,
    refusal,
    wait_until_done,
)
from tests.contract_popcorn.wire import Wire, multipart

pytestmark = [pytest.mark.server, pytest.mark.long]

# Prints what no ASCII has, so that a chunk may split a character.
TALKING = HONEST + "\nprint('Dur\u00e9e \u2603 ' * 50)\n".encode()


def test_point_07_a_profile_has_its_report_and_one_zip_a_case(ada: Wire) -> None:
    stream_events = follow_stream(ada, "/identity/CPU/profile", TALKING)
    assert [event for event, _ in stream_events[:-1]] == ["status"] * (len(stream_events) - 1)
    for _, data in stream_events[:-1]:
        assert data["status"] == "processing"
        assert data["elapsed_time"] >= 0
        assert isinstance(data["message"], str)
    event, result = stream_events[-1]
    assert event == "result"
    assert type(result["submission_id"]) is int
    profiled = result["results"][0]["runs"]
    assert set(profiled) == {"profile.0"}
    keys = profiled["profile.0"]["run"]["result"]
    assert type(keys["benchmark-count"]) is int
    report = base64.b64decode(keys["benchmark.0.report"], validate=True).decode()
    assert report.strip()
    assert keys["benchmark.0.spec"] == "size=65536 seed=6252"
    trace = base64.b64decode(profiled["profile.0"]["profile"]["trace"], validate=True)
    with zipfile.ZipFile(io.BytesIO(trace)) as folder:
        assert folder.namelist()
        assert folder.testzip() is None
    assert "\u2603" in profiled["profile.0"]["run"]["stdout"]
    assert "\ufffd" not in str(result), "a split character would show"


@pytest.mark.parametrize("mode", ["test", "benchmark", "leaderboard"])
def test_older_clients_stream_the_other_modes(ada: Wire, ranked: Ranked, mode: str) -> None:
    is_ranked = mode == "leaderboard"
    stream_events = (
        ranked.told if is_ranked else follow_stream(ada, f"/Identity/CPU/{mode.upper()}", size=1021)
    )
    event, result = stream_events[-1]
    assert event == "result", result
    assert result["results"][0]["success"] is True
    assert result["results"][0]["runs"][mode]["run"]["passed"] is True
    assert "succeeded" in result["reports"][0]
    polled = wait_until_done(ada, result["submission_id"])
    assert polled["job"]["status"] == "succeeded"


def test_a_failed_run_ends_the_stream_with_an_error(ada: Wire) -> None:
    event, data = follow_stream(
        ada, "/identity/CPU/test", b"def custom_kernel(data):\n    return 1\n"
    )[-1]
    assert event == "error"
    assert data["status"] == "error"
    assert type(data["status_code"]) is int
    assert data["detail"].isascii()
    assert isinstance(data["code"], str)


def test_a_refusal_comes_before_the_stream_begins(ada: Wire, nobody: Wire) -> None:
    answer = ada.post_file("/identity/NOPE/profile", HONEST)
    refusal(answer, 400, "unknown_gpu")
    assert answer.headers["content-type"] == "application/json"
    refusal(nobody.post_file("/identity/CPU/profile", HONEST), 401, "missing_credential")


def test_a_lost_stream_loses_no_submission(ada: Wire) -> None:
    with ada.opened_file("/identity/CPU/test", HONEST, "lost.py") as stream:
        next(stream.chunks(30))
    until = time.monotonic() + 30
    while (newest := ada.get("/user/submissions?limit=1").json()[0])["file_name"] != "lost.py":
        assert time.monotonic() < until, newest
        time.sleep(0.1)
    assert wait_until_done(ada, newest["id"])["job"]["status"] == "succeeded"


def test_three_parts_that_name_no_mode_are_nobodys(ada: Wire) -> None:
    refusal(ada.post_file("/identity/CPU/dance", HONEST), 404, "not_found")


def test_the_profiler_service_gives_a_zip_for_each_case(ada: Wire, grace: Wire) -> None:
    body = multipart(
        HONEST, 'filename="submission.py"', leaderboard="Identity", benchmark_index="0"
    )
    with ada.opened("POST", "/profile", [ada.credential], body) as stream:
        answer = stream.whole()
    assert answer.status == 200, answer.body
    job = answer.json()["job_id"]
    assert isinstance(job, str)
    refusal(grace.get(f"/jobs/{job}"), 403, "not_yours")
    job_state = _ended_job(ada, job)
    (artifact,) = job_state["artifacts"]
    assert artifact["name"].endswith(".zip")
    refusal(grace.get(artifact["url"]), 403, "not_yours")
    zipped = ada.get(artifact["url"])
    assert zipped.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(zipped.body)) as folder:
        assert folder.namelist()


@pytest.mark.feature("P4")
def test_the_newest_clients_profile_one_case_by_a_route_of_its_own(ada: Wire) -> None:
    fields = {"benchmark_index": "0"}
    body = multipart(HONEST, 'filename="submission.py"', **fields)
    with ada.opened("POST", "/profile/Identity/cpu", [ada.credential], body) as stream:
        event, data = read_events(stream)[-1]
    assert event == "result", data
    (result,) = data["results"]
    assert result["success"] is True
    assert result["system"]["gpu"] == "CPU"
    assert result["profile_metadata"]["capture_options"] == {"benchmark_index": 0}
    assert len(result["profile_metadata"]["config_sha256"]) == 64
    (key,) = result["runs"]
    run = result["runs"][key]
    assert (key, run["run"]["success"]) == ("profile.0", True)
    assert run["run"]["result"]["benchmark.0.spec"] == "size=65536 seed=6252"
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(run["profile"]["trace"]))) as folder:
        assert folder.namelist()


@pytest.mark.parametrize(
    ("target", "fields", "status", "code"),
    [
        ("identity/NOPE", {}, 400, "unknown_gpu"),
        ("identity/CPU", {"benchmark_index": "7"}, 422, "invalid_request"),
        ("identity/CPU", {"benchmark_index": "-1"}, 400, "bad_query"),
        ("identity/CPU", {"ncu_launch_count": "0"}, 400, "bad_query"),
        ("identity/CPU", {"ncu_launch_count": "many"}, 400, "bad_query"),
        ("identity/CPU", {"ncu_kernel_name": "a\x00b"}, 422, "invalid_request"),
        ("identity/CPU", {"ncu_kernel_name_base": "pretty"}, 422, "invalid_request"),
        ("identity/CPU", {"ncu_kernel_name": "regex:copy"}, 400, "not_supported"),
    ],
)
def test_a_profile_with_wrong_options_is_refused_before_a_run_is_spent(
    ada: Wire, target: str, fields: dict[str, str], status: int, code: str
) -> None:
    before = ada.get("/user/submissions?limit=1").json()
    body = multipart(HONEST, 'filename="submission.py"', **fields)
    with ada.opened("POST", f"/profile/{target}", [ada.credential], body) as stream:
        refusal(stream.whole(), status, code)
    assert ada.get("/user/submissions?limit=1").json() == before


def test_the_profiler_service_says_which_options_it_has(nobody: Wire) -> None:
    capabilities = nobody.get("/health").json()["capabilities"]
    names = ["ncu_kernel_name", "ncu_kernel_name_base", "ncu_launch_count"]
    assert capabilities["request_capture_options"] == names


def test_a_case_that_is_not_there_is_refused_before_a_run_is_spent(ada: Wire) -> None:
    before = ada.get("/user/submissions?limit=1").json()
    body = multipart(
        HONEST, 'filename="submission.py"', leaderboard="Identity", benchmark_index="7"
    )
    with ada.opened("POST", "/profile", [ada.credential], body) as stream:
        assert "case 8 is none of 1 to" in refusal(stream.whole(), 422, "invalid_request")
    assert ada.get("/user/submissions?limit=1").json() == before


def _ended_job(wire: Wire, job: str) -> Any:
    until = time.monotonic() + 60
    while True:
        job_state = wire.get(f"/jobs/{job}").json()
        assert job_state["status"] in ("queued", "running", "succeeded", "failed", "timed_out")
        assert job_state["queue_position"] is None or type(job_state["queue_position"]) is int
        if job_state["status"] not in ("queued", "running"):
            assert job_state["status"] == "succeeded", job_state
            return job_state
        assert job_state["artifacts"] == []
        assert time.monotonic() < until
        time.sleep(0.1)
