"""A verifiers environment: `vf-eval warpboard-verifiers --env.taskset.problems ...`.

Each problem is a task, whose prompt is its statement. The model answers once, and the last block of
code in its answer is evaluated. verifiers finds an environment by the name of a package, so this
one has only that.
"""

from warpboard_agents.verifiers import ChatHarness, KernelTaskset

__all__ = ["ChatHarness", "KernelTaskset"]
