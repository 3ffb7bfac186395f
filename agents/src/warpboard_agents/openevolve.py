"""The stages of an evaluator for OpenEvolve.

An evaluator's file names them:

    from warpboard_agents.openevolve import Stages

    stages = Stages("problems/vectoradd")
    evaluate_stage1, evaluate_stage2 = stages.test, stages.benchmark
    evaluate = stages.benchmark

OpenEvolve executes that file again for every program, so what it starts lives as long as the
process.
"""

import functools
import os
from pathlib import Path

from openevolve.evaluation_result import EvaluationResult

from harness.evaluations import Evaluation, known_reward
from harness.evaluator import EvaluationMode
from harness.vocabulary import EVALUATION_LEVEL_MIN, PASSED
from warpboard_agents.kernels import KernelEvaluator, Platform, open_evaluator

REASON_CHARS_MAX = 4000
# Less than every program that passed has.
FAILED_SCORE = -1.0


class Stages:
    """The functions that OpenEvolve calls with the path of a program."""

    def __init__(
        self,
        problem: str,
        *,
        level_min: str = EVALUATION_LEVEL_MIN,
        platform: Platform | None = None,
    ) -> None:
        self._evaluator = _open_problem(os.getpid(), problem, level_min, platform)

    def test(self, program_path: str) -> EvaluationResult:
        """Check a program; one that passed has the `combined_score` 0.

        It keeps that score if its second stage does not end, so it must not be a good one.
        """
        evaluation = self._evaluate("test", program_path)
        return _make_result(evaluation, 0.0)

    def benchmark(self, program_path: str) -> EvaluationResult:
        """Check and time a program; `combined_score` is its reward.

        Raises RuntimeError if the machine could not judge it; OpenEvolve tries again.
        """
        evaluation = self._evaluate("benchmark", program_path)
        reward = known_reward(evaluation)
        if reward is None:
            raise RuntimeError(f"the program could not be judged: {evaluation.reason}")
        return _make_result(evaluation, reward)

    def _evaluate(self, mode: EvaluationMode, program_path: str) -> Evaluation:
        source = Path(program_path).read_text(encoding="utf-8")
        return self._evaluator.evaluate_all([source], mode)[0]


@functools.cache
def _open_problem(
    _pid: int, problem: str, level_min: str, platform: Platform | None
) -> KernelEvaluator:
    return open_evaluator(problem, level_min=level_min, platform=platform)


def _make_result(evaluation: Evaluation, score: float) -> EvaluationResult:
    """Return a program's metrics, and what the next prompt says of it."""
    has_passed = evaluation.verdict == PASSED
    metrics = {"passed": float(has_passed), "combined_score": score if has_passed else FAILED_SCORE}
    if evaluation.speedup is not None:
        metrics["speedup"] = evaluation.speedup
    texts = {
        "verdict": evaluation.verdict or "none",
        "reason": evaluation.reason[:REASON_CHARS_MAX],
        "doubts": "; ".join(evaluation.doubts),
    }
    return EvaluationResult(metrics, {name: text for name, text in texts.items() if text})
