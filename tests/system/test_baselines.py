"""A published problem's baselines are run by the platform, and who submits is held against them."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import ROOT, Running
from tests.support.waits import eventually

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
RUNNING = {"RunStarted", "RunStageFinished"}


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
