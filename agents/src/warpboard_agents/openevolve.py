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

from harness.evaluations import Evaluation
from harness.evaluator import EvaluationMode
from harness.vocabulary import PASSED
from warpboard_agents.kernels import KernelEvaluator, reward_of

REASON_CHARS_MAX = 4000


class Stages:
    """The functions that OpenEvolve calls with the path of a program."""

    def __init__(self, problem: str, *, level_min: str = "medium") -> None:
        self._evaluator = _open_problem(os.getpid(), problem, level_min)

    def test(self, program_path: str) -> EvaluationResult:
        """Check a program; `combined_score` is 1 if it passed, 0 if not."""
        evaluation = self._evaluate("test", program_path)
        passed = float(evaluation.verdict == PASSED)
        return EvaluationResult({"passed": passed, "combined_score": passed}, _feedback(evaluation))

    def benchmark(self, program_path: str) -> EvaluationResult:
        """Check and time a program; `combined_score` is its reward.

        Raises RuntimeError if the machine could not judge it; OpenEvolve tries again.
        """
        evaluation = self._evaluate("benchmark", program_path)
        reward = reward_of(evaluation)
        if reward is None:
            raise RuntimeError(f"the program could not be judged: {evaluation.reason}")
        metrics = {"passed": float(evaluation.verdict == PASSED), "combined_score": reward}
        if evaluation.speedup is not None:
            metrics["speedup"] = evaluation.speedup
        return EvaluationResult(metrics, _feedback(evaluation))

    def _evaluate(self, mode: EvaluationMode, program_path: str) -> Evaluation:
        source = Path(program_path).read_text(encoding="utf-8")
        return self._evaluator.evaluate_all([source], mode)[0]


@functools.cache
def _open_problem(_pid: int, problem: str, level_min: str) -> KernelEvaluator:
    return KernelEvaluator(problem, level_min=level_min)


def _feedback(evaluation: Evaluation) -> dict[str, str]:
    """Return what the next prompt says of the program."""
    parts = {
        "verdict": evaluation.verdict or "none",
        "reason": evaluation.reason[:REASON_CHARS_MAX],
        "doubts": "; ".join(evaluation.doubts),
    }
    return {name: text for name, text in parts.items() if text}
