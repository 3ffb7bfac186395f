"""What an agent offers decides what it is handed: languages and profiles."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_runner import run_warpboard
from tests.support.people import HONEST, NATIVE, Person

pytestmark = [pytest.mark.platform, pytest.mark.long, pytest.mark.server]


def agent_of(person: Person) -> dict[str, Any]:
    """The platform's own agent; others may have been there before."""
    items: list[dict[str, Any]] = person.http.get("/v1/agents").json()["items"]
    return next(item for item in items if item["id"] == "local")


@pytest.mark.feature("P10")
def test_a_file_in_cpp_is_compiled_and_judged_like_any_other(ada: Person) -> None:
    if "g++" not in agent_of(ada)["toolchains"]:
        pytest.skip("no g++ on this machine")
    found = ada.end(ada.submit(NATIVE, name="kernel.cpp"))
    assert found["verdict"] == "passed", found["reason"]
    wrong = ada.end(ada.submit(NATIVE.replace("return 0", "return 1"), name="kernel.cpp"))
    assert wrong["outcome"] == "failed"
    broken = ada.end(ada.submit(NATIVE.replace("std::memcpy", "std::memcopy"), name="kernel.cpp"))
    assert (broken["verdict"], broken["code"]) == ("compile_error", "build_failed")


@pytest.mark.parametrize(
    ("name", "source", "missing"),
    [
        ("kernel.py", f"import cupy\n{HONEST}", "no agent of CPU has cupy, which kernel.py needs"),
        ("kernel.cu", "__global__ void k() {}\n", "a .cu file needs a GPU"),
    ],
)
def test_what_no_agent_can_run_is_refused_and_costs_nothing(
    ada: Person, tmp_path: Path, name: str, source: str, missing: str
) -> None:
    assert "cupy" not in agent_of(ada)["toolchains"]
    data = {"problem": "identity", "mode": "test", "gpu": "CPU"}
    newest = "/v1/submissions?limit=1"
    before = ada.http.get(newest).json()["items"]
    answer = ada.http.post("/v1/submissions", data=data, files={"file": (name, source.encode())})
    body = answer.json()
    assert (answer.status_code, body["code"]) == (409, "toolchain_missing")
    assert [error["field"] for error in body["errors"]] == ["file"]
    assert missing in body["detail"]
    assert ada.http.get(newest).json()["items"] == before
    (tmp_path / name).write_text(source)
    words = ("submit", tmp_path / name, *("--leaderboard", "identity", "--gpu", "CPU"))
    result = run_warpboard(*words, "--as", "ada", "--url", str(ada.http.base_url))
    assert result.exit_code == 2
    assert missing in result.stderr


def test_a_profile_leaves_something_to_look_at(ada: Person) -> None:
    found = ada.end(ada.submit(HONEST, mode="profile"))
    assert found["verdict"] == "passed", found["reason"]
    assert found["ranking"]["code"] == "mode_not_ranked"
    names = [one["name"] for one in found["files"]]
    profiles = [name for name in names if name not in ("log.txt", "samples.json.gz")]
    assert profiles
    answer = ada.http.get(f"/v1/submissions/{found['number']}/files/{profiles[0]}")
    assert answer.status_code == 200
    assert answer.content
