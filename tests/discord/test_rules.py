"""By what a leaderboard judges: which harness code its agents have, and where that lies."""

from typing import Any

from discord_edge.domain.report import Attached, fitted
from discord_edge.domain.rules import codes, judged

NEW, OLD, OTHER = ("a" * 64, "b" * 64, "c" * 64)
PROBLEM: dict[str, Any] = {
    "slug": "sort",
    "main": "",
    "form": "task",
    "rules": {
        "cases": {"tests": [1], "benchmarks": [1, 2]},
        "budgets_s": {"test": 60},
        "tolerances": "as the check says",
        "formula": "the geometric mean",
        "ties": "share a rank",
        "source_policy": "after the deadline",
    },
}


def told(digest: str, *gpus: str) -> dict[str, Any]:
    """A harness code as ranker tells it."""
    agents = [{"id": f"of-{gpu}", "gpu": gpu} for gpu in gpus]
    known = {"digest": digest, "version": "2", "agents": agents, "name": f"h-{digest[:2]}.zip"}
    return known | {"url": f"/v1/harnesses/{digest}"}


def test_each_gpu_type_is_told_with_the_code_that_its_agents_have() -> None:
    told_of = {"items": [told(NEW, "H200", "L4"), told(OTHER, "B200"), told(OLD, "CPU")]}
    known = codes(told_of, ["CPU", "H200"])
    assert [(one.digest, one.gpus) for one in known] == [(NEW, ("H200",)), (OLD, ("CPU",))]
    body = judged(PROBLEM, "python", known).body
    assert f"**harness on H200** version 2, `{NEW}`" in body
    assert f"**harness on CPU** version 2, `{OLD}`" in body
    assert OTHER not in body


def test_without_an_agent_that_told_of_its_code_there_is_none_to_show() -> None:
    known = codes({"items": [told(NEW, "L4"), told(OLD)]}, ["CPU"])
    card = judged(PROBLEM, "python", known)
    assert "no agent of its GPU types has told of its code" in card.body
    assert card.hint == ""


def test_a_harness_that_discord_does_not_take_is_told_with_where_it_lies() -> None:
    known = codes({"items": [told(NEW, "CPU")]}, ["CPU"])
    card = judged(PROBLEM, "python", known)
    for link, said in (("https://w.example/v1", "](https://w.example/v1)"), ("", card.hint)):
        body = fitted(_with(card, Attached("h.zip", b"12345", 5, link)), 4).body
        assert said in body
    assert f"/v1/harnesses/{NEW}" in card.hint


def _with(card: Any, file: Attached) -> Any:
    return type(card)(card.title, card.body, files=(file,), hint=card.hint)
