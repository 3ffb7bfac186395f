"""The whole path on a healthy platform."""

import gzip
import hashlib
import io
import json
import zipfile
from typing import Any

import pytest

from tests.support.people import HONEST, Person
from tests.support.platform import ROOT, Running

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def ranked(platform: Running) -> dict[str, Any]:
    """A ranked submission of grace's, which is over."""
    with Person(platform.url, "grace") as grace:
        return grace.end(grace.submit(HONEST, mode="ranked"))


@pytest.mark.feature("P7")
def test_a_ranked_kernel_stands_on_the_leaderboard(ada: Person, ranked: dict[str, Any]) -> None:
    assert (ranked["outcome"], ranked["ranking"]["status"]) == ("passed", "ranked")
    (entry,) = [one for one in ada.board() if one["participant"] == "grace"]
    assert entry["number"] <= ranked["number"]
    low_us, high_us = entry["interval_us"]
    assert low_us <= entry["score_us"] <= high_us
    (agent,) = ada.http.get("/v1/agents").json()["items"]
    assert (entry["tier"], entry["level"]) == (agent["tier"], agent["level"])
    is_best = (agent["tier"], agent["level"], entry["grade"] != "noisy") == ("C1", "strong", True)
    assert entry["is_provisional"] is not is_best
    timed = [one["roofline"] for one in ranked["cases"] if one["stage"] == "time"]
    # A processor has no data sheet: rates, and no share of what is possible.
    assert timed
    assert all(one["bandwidth_gb_s"] > 0 for one in timed)
    assert entry["roofline_fraction"] is timed[0]["share"] is None


@pytest.mark.feature("N4")
def test_who_was_judged_can_have_the_very_code_that_judged_them(ada: Person) -> None:
    found = ada.end(ada.submit(HONEST))
    digest = found["environment"]["harness_code"]
    (agent,) = ada.http.get("/v1/agents").json()["items"]
    assert agent["details"]["harness_code"] == digest
    (told,) = [one for one in ada.http.get("/v1/harnesses").json()["items"] if one["agents"]]
    assert (told["digest"], told["version"]) == (digest, agent["harness"])
    answer = ada.http.get(told["url"])
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    assert hashlib.sha256(answer.content).hexdigest() == digest
    assert answer.headers["x-content-type-options"] == "nosniff"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as code:
        calls = ROOT / "harness" / "src" / "harness" / "check" / "calls.py"
        assert code.read("harness/check/calls.py") == calls.read_bytes()
    assert ada.http.get(f"/v1/harnesses/{found['source_digest']}").status_code == 404


def test_what_a_run_left_can_be_downloaded(ada: Person) -> None:
    found = ada.end(ada.submit(f"{HONEST}\nprint('hello')\n", mode="benchmark"))
    names = [one["name"] for one in found["files"]]
    assert {"log.txt", "samples.json.gz"} <= set(names)
    log, samples = (
        ada.http.get(f"/v1/submissions/{found['number']}/files/{name}")
        for name in ("log.txt", "samples.json.gz")
    )
    assert b"hello" in log.content
    assert json.loads(gzip.decompress(samples.content))
    assert ada.http.get(f"/v1/submissions/{found['number']}/files/nope").status_code == 404


def test_a_submissions_history_tells_its_life_in_order(ada: Person) -> None:
    found = ada.end(ada.submit(HONEST))
    types = [one["type"] for one in found["timeline"]]
    assert types[:3] == ["SubmissionReceived", "JobAssigned", "RunStarted"]
    assert types.index("RunCompleted") < types.index("SubmissionEnded")
    assert types.count("SubmissionEnded") == 1
    told = ada.http.get(
        f"/v1/submissions/{found['number']}/events", headers={"Accept": "application/json"}
    )
    names = {one["id"]: one["type"] for one in told.json()}
    lines = {one["seq"]: one["type"] for one in found["timeline"]}
    both = names.keys() & lines.keys()
    assert len(both) == len(types)
    assert {seq: names[seq] for seq in both} == {seq: lines[seq] for seq in both}


@pytest.mark.feature("P7")
def test_a_test_is_not_ranked_and_says_so(ada: Person) -> None:
    found = ada.end(ada.submit(HONEST, mode="test"))
    assert found["ranking"]["code"] == "mode_not_ranked"
    assert "ranked" in found["ranking"]["reason"]


@pytest.mark.usefixtures("ranked")
def test_the_rebuilt_leaderboards_equal_the_live_ones(platform: Running, ada: Person) -> None:
    ada.end(ada.submit(HONEST, mode="ranked"))
    assert {"ada", "grace"} <= {entry["participant"] for entry in ada.board()}
    found = platform.rebuild()
    assert (found["is_equal"], found["differences"]) == (True, [])
    assert found["entries"] >= 2


def test_a_second_up_says_that_a_platform_runs_and_where(platform: Running) -> None:
    second = Running(platform.folder)
    process = second.launch()
    assert process.wait(30) not in (0, None)
    log = (platform.folder.parent / "home.log").read_text()
    assert f"a platform runs in {platform.folder} already: {platform.url}" in log


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("submissions?before=1000000000000000000000", 422),
        ("submissions?problem=%00", 422),
        ("submissions/999999999", 404),
        ("submissions/99999999999999999999999", 404),
        ("submissions/one", 422),
        ("problems/%00", 422),
        ("problems/nope", 404),
        ("leaderboards/identity/TPU", 404),
        ("leaderboards/identity/CPU?limit=0", 422),
    ],
)
def test_an_odd_read_gets_one_clear_answer(ada: Person, path: str, status: int) -> None:
    answer = ada.http.get(f"/v1/{path}")
    assert answer.status_code == status, answer.text
    assert isinstance(answer.json()["detail"], str)
