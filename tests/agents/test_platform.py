"""The adapters by a real platform: what it evaluates is what the library evaluates."""

import importlib
import sys
from collections.abc import Iterator, Sequence
from math import log
from typing import Any

import pytest

from harness.evaluations import Evaluation
from tests.support.people import HONEST
from tests.support.platform import ROOT, Running

GRADES = {"steady": ["ok"], "once noisy": ["noisy", "ok"], "noisy": ["noisy", "noisy"]}
WRONG = "def custom_kernel(data):\n    return data[1]\n"
pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


@pytest.fixture
def adapters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter of TRL, which needs nothing of TRL itself, and what all adapters share."""
    monkeypatch.syspath_prepend(ROOT / "agents" / "src")
    names = ("warpboard_agents.kernels", "warpboard_agents.trl")
    yield [importlib.import_module(name) for name in names]
    for name in [name for name in sys.modules if name.startswith("warpboard_agents")]:
        del sys.modules[name]


async def test_a_platform_evaluates_as_the_library_does(platform: Running, adapters: Any) -> None:
    kernels, trl = adapters
    token = platform.token("trainer", "submit", "read:own")["Authorization"].removeprefix("Bearer ")
    target = kernels.Platform(platform.url, token, "CPU")
    there = kernels.open_evaluator("identity", platform=target)
    here = kernels.open_evaluator(str(ROOT / "problems" / "identity"))
    assert there.slug == here.slug
    # A platform's file to start from also has directives and a deadline.
    told, told_here = (
        text.partition("Start from")[0] for text in (there.statement, here.statement)
    )
    assert told == told_here
    assert "def custom_kernel" in there.statement
    names = ("id", "mode", "verdict", "stage", "speedup", "failure_code", "is_cached")
    results = [
        [{name: str(getattr(result, name)) for name in names} for result in evaluations]
        for evaluations in (
            there.evaluate_all([HONEST, WRONG], "test"),
            here.evaluate_all([HONEST, WRONG], "test"),
        )
    ]
    assert results[0] == results[1]
    assert [result["verdict"] for result in results[0]] == ["passed", "wrong_answer"]
    assert (await there.evaluate(HONEST, "test")).is_cached

    reward = trl.KernelReward("identity", bonus=0.1, platform=target)
    shares: dict[str, float] = {}
    rewards = reward([], [HONEST, WRONG], log_metric=shares.__setitem__)
    assert shares == {"kernels_passed": 0.5}
    assert rewards[1] == 0.0
    # A busy machine gives no time that counts.
    assert rewards[0] is None or rewards[0] >= 0.1


class NoisyEvaluator:
    """Passes every kernel, twice as fast as the yardstick, with grades by turns."""

    statement = ""

    def __init__(self) -> None:
        self.grades = {source: iter(grades) for source, grades in GRADES.items()}
        self.asked: list[list[str]] = []

    def evaluate_all(self, sources: Sequence[str]) -> list[Evaluation]:
        """Return how each ends, in their order."""
        self.asked.append(list(sources))
        return [
            Evaluation(
                *(number, "benchmark", "passed", ""),
                speedup=2.0,
                interval=(1.9, 2.1),
                grade=next(self.grades[source]),
            )
            for number, source in enumerate(sources)
        ]


def test_what_was_noisy_is_evaluated_once_more(
    adapters: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = NoisyEvaluator()
    _, trl = adapters
    monkeypatch.setattr(trl, "open_evaluator", lambda *_, **__: evaluator)
    rewards = trl.KernelReward("identity")([], list(GRADES))
    assert evaluator.asked == [list(GRADES), ["once noisy", "noisy"]]
    assert rewards == [pytest.approx(log(1.9)), pytest.approx(log(1.9)), None]
