"""A reward function for trainers of TRL, such as GRPOTrainer.

trainer = GRPOTrainer(model, reward_funcs=KernelReward("problems/vectoradd"), ...)
"""

from collections.abc import Sequence
from typing import Any

from harness.evaluations import Evaluation, known_reward
from harness.vocabulary import EVALUATION_LEVEL_MIN, PASSED
from warpboard_agents.completions import Completion, extract_source
from warpboard_agents.kernels import Platform, open_evaluator


class KernelReward:
    """Evaluates the kernels of a batch at once and returns their rewards in order.

    `bonus` is added for each kernel that passes, for a model that is not yet faster than the
    yardstick. What the machine could not judge, or not time, is evaluated once more; if it cannot
    then, the reward is None, which TRL leaves out.
    """

    # TRL names the metric by it.
    __name__ = "kernel_reward"

    def __init__(
        self,
        problem: str,
        *,
        bonus: float = 0.0,
        level_min: str = EVALUATION_LEVEL_MIN,
        platform: Platform | None = None,
    ) -> None:
        self._evaluator = open_evaluator(problem, level_min=level_min, platform=platform)
        self._bonus = bonus
        self.statement = self._evaluator.statement

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Completion],
        log_metric: Any = None,
        **_: Any,
    ) -> list[float | None]:
        """Return the reward of each completion; TRL logs the share of kernels that passed."""
        del prompts
        sources = [extract_source(completion) for completion in completions]
        evaluations = self._evaluate(sources)
        passed = [evaluation.verdict == PASSED for evaluation in evaluations]
        if log_metric is not None:
            log_metric("kernels_passed", sum(passed) / len(passed))
        rewards = [known_reward(evaluation) for evaluation in evaluations]
        return [
            None if reward is None else reward + self._bonus * is_passed
            for reward, is_passed in zip(rewards, passed, strict=True)
        ]

    def _evaluate(self, sources: Sequence[str]) -> list[Evaluation]:
        evaluations = self._evaluator.evaluate_all(sources)
        unknown = [
            number
            for number, evaluation in enumerate(evaluations)
            if known_reward(evaluation) is None
        ]
        if unknown:
            again = self._evaluator.evaluate_all([sources[number] for number in unknown])
            for number, evaluation in zip(unknown, again, strict=True):
                evaluations[number] = evaluation
        return evaluations
