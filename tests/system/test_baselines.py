"""A published problem's baselines are run by the platform, and who submits is held against them."""

import io
import shutil
import time
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest

from ingest.popcorn.conversions import leaderboard_id
from shared.problems.kernelbench import BASELINES
from tests.cli.command_runner import run_warpboard
from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import ROOT, Running
from tests.support.waits import eventually, until

pytestmark = [pytest.mark.platform, pytest.mark.server, pytest.mark.long]
SLUG = "measured"
GOALS = """\
gpus: [CPU]
baselines:
  - {name: eager, file: baselines/eager.py, note: "a copy that waits"}
  - {name: broken, file: baselines/broken.py}
milestones:
  - {id: quicker, title: "Quicker", when: {metric: vs_baseline.eager, op: ">", value: 1}}
  - {id: right, title: "Right", when: {metric: cases_passed, op: ">=", value: 1}}
"""
SLOW = HONEST.replace("    output.copy_", "    __import__('time').sleep(0.02)\n    output.copy_")
BROKEN = "def custom_kernel(data):\n    return data[-1]\n"
WITHIN_S = 120.0
# A model that sorts again what it has sorted, and an answer that sorts once.
MODEL = """\
import torch
ROWS, COLUMNS = 16, 1024
class Model(torch.nn.Module):
    def forward(self, values):
        for _ in range(16):
            values = torch.sort(values, dim=-1).values
        return values
def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]
def get_init_inputs():
    return []
"""
ANSWER = """\
import torch
class ModelNew(torch.nn.Module):
    def forward(self, values):
        return torch.sort(values, dim=-1).values
"""
# Of a level that no other test has.
MODEL_SET = "kernelbench-7"
# A ranked run of a file, whose budgets are the usual ones; two of those, with torch's compiler.
RANKED_WITHIN_S, COMPILED_WITHIN_S = 240.0, 600.0
RUNNING = {"RunStarted"}


def measured(folder: Path) -> Path:
    """A problem with goals: identity under another name."""
    target = folder / SLUG
    left_out = shutil.ignore_patterns("solutions", "__pycache__", "baselines")
    shutil.copytree(ROOT / "problems" / "identity", target, ignore=left_out)
    (target / "warpboard.yml").write_text(GOALS)
    (target / "baselines").mkdir()
    (target / "baselines" / "eager.py").write_text(SLOW)
    (target / "baselines" / "broken.py").write_text(BROKEN)
    return target


@pytest.mark.feature("P23")
async def test_a_baseline_becomes_a_row_and_a_submission_reaches_a_milestone(
    platform: Running, ada: Person, tmp_path: Path
) -> None:
    with Person(platform.url, "author") as author:
        add_problem(platform.url, measured(tmp_path))
        began = time.monotonic()
        found = ada.end(ada.submit(HONEST, mode="ranked", problem=SLUG))
        assert found["ranking"]["status"] == "ranked", found["reason"]

        def board(who: Person) -> dict[str, Any]:
            answer = who.http.get(f"/v1/leaderboards/{SLUG}/CPU")
            assert answer.status_code == 200, answer.text
            told: dict[str, Any] = answer.json()
            return told

        def events_of(name: str) -> list[dict[str, Any]]:
            numbers = {one["name"]: one["number"] for one in board(author)["baselines"]}
            answer = author.http.get(f"/v1/submissions/{numbers[name]}")
            assert answer.status_code == 200, answer.text
            timeline: list[dict[str, Any]] = answer.json()["timeline"]
            return timeline

        # Nobody else waits, so the agent runs a baseline, which gives way to whoever comes.
        await eventually(lambda: events_of("eager")[-1]["type"] in RUNNING, WITHIN_S)
        assert ada.end(ada.submit(HONEST))["verdict"] == "passed"

        def over() -> dict[str, Any] | None:
            told = board(author)
            states = {one["name"]: one["state"] for one in told["baselines"]}
            reached = [one["is_reached"] for one in board(ada)["milestones"]]
            is_over = states == {"eager": "measured", "broken": "failed"} and all(reached)
            return told if is_over else None

        told = await eventually(over, WITHIN_S - (time.monotonic() - began))
        assert told is not None
        (row,) = told["items"]
        assert (row["rank"], row["participant"]) == (1, "ada")
        assert row["vs_baseline"]["eager"] > 1
        eager, broken = told["baselines"]
        again = next(entry for entry in events_of("eager") if entry["type"] == "JobRequeued")
        assert again["note"] == "a participant's submission needs the agent"
        assert eager["vs_leader"] == pytest.approx(row["vs_baseline"]["eager"])
        assert broken["code"] == "check_failed"
        assert board(ada)["baselines"][1]["reason"] is None
        listed = ada.http.get("/v1/submissions", params={"problem": SLUG}).json()["items"]
        assert [one["participant"] for one in listed] == ["ada"]
        mine = ada.http.get("/v1/me/milestones").json()["items"]
        assert {one["id"] for one in mine if one["problem"] == SLUG} == {"quicker", "right"}
        assert platform.rebuild()["is_equal"]


def cancel_baselines(platform: Running, slug: str) -> None:
    """Cancel the baselines of a problem that nobody waits for."""
    with httpx.Client(base_url=platform.url, headers=platform.operator, timeout=30) as http:
        baselines = until(lambda: http.get(f"/v1/leaderboards/{slug}/CPU").json().get("baselines"))
        for baseline in baselines:
            response = http.post(f"/v1/submissions/{baseline['number']}/cancel")
            assert response.status_code == 202, response.text


@pytest.mark.timeout(900)
def test_a_level_is_published_with_its_baselines_and_scored_against_them(
    platform: Running, ada: Person, tmp_path: Path
) -> None:
    level = tmp_path / "level7"
    level.mkdir()
    (level / "1_Sorts.py").write_text(MODEL)
    (level / "2_Sorts_again.py").write_text(MODEL)
    slugs = [f"{MODEL_SET}-1-sorts", f"{MODEL_SET}-2-sorts-again"]
    unchecked = ("--unchecked", "tried by hand")
    publish = ("problem", "publish", level, "--gpu", "CPU", *unchecked)
    operator, reader = ("--folder", platform.folder), ("--url", platform.url, "--as", "ada")
    result = run_warpboard(*publish, *operator)
    assert result.exit_code == 0, result.output
    progress = [line for line in result.stderr.splitlines() if " of 2: " in line]
    assert progress == [f"{n} of 2: {slug}: created" for n, slug in enumerate(slugs, 1)]
    cancel_baselines(platform, slugs[1])
    again = run_warpboard(*publish, *operator)
    assert again.stdout.count("skipped") == 2, again.output
    submission = ada.end(
        ada.submit(ANSWER, mode="ranked", problem=slugs[0]), within_s=RANKED_WITHIN_S
    )
    assert submission["ranking"]["status"] == "ranked", submission["reason"]

    def measured() -> dict[str, Any] | None:
        board: dict[str, Any] = ada.http.get(f"/v1/leaderboards/{slugs[0]}/CPU").json()
        states = {entry["name"]: entry["state"] for entry in board["baselines"]}
        assert "failed" not in states.values(), board["baselines"]
        return board if set(states.values()) == {"measured"} else None

    board = until(measured, COMPILED_WITHIN_S)
    assert board is not None
    (entry,) = board["items"]
    speedups = entry["vs_baseline"]
    assert speedups.keys() == {baseline.name for baseline in BASELINES}
    assert speedups["eager"] > 1
    scores_us = {baseline["name"]: baseline["score_us"] for baseline in board["baselines"]}
    for name, ratio in speedups.items():
        assert ratio == pytest.approx(scores_us[name] / entry["score_us"])
    shown = run_warpboard("leaderboard", "show", slugs[0], "CPU", *reader, COLUMNS="200")
    assert "x eager" in shown.stdout, shown.output
    shares = run_warpboard("leaderboard", "fast-p", MODEL_SET, "CPU", *reader)
    assert "fast_1 eager" in shares.stdout, shares.output
    body = {"leaderboard_ids": [leaderboard_id(slug) for slug in slugs], "private": True}
    response = httpx.post(
        f"{platform.url}/admin/export",
        json=body | {"filename": "level.parquet"},
        headers=platform.operator,
        timeout=30,
    )
    assert response.status_code == 200, response.text
    (row,) = pyarrow.parquet.read_table(io.BytesIO(response.content)).to_pylist()
    assert (row["submission_id"], row["correct"]) == (submission["number"], True)
    for name, ratio in speedups.items():
        assert row[f"speedup_{name}"] == pytest.approx(ratio)
        # One of the two problems of the level is solved.
        assert row[f"fast_0_{name}"] == 0.5
        assert row[f"fast_1_{name}"] == (0.5 if ratio > 1 else 0.0)
