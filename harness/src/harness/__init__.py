"""Runs submissions against problems and reports the results."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.evaluations import Evaluation, Reward, compute_reward
    from harness.evaluator import Evaluator, EvaluatorError, Source

__all__ = ["Evaluation", "Evaluator", "EvaluatorError", "Reward", "Source", "compute_reward"]


def __getattr__(name: str) -> Any:
    """Import what callers use when they use it: every worker imports this package, too."""
    import importlib

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in ("harness.evaluations", "harness.evaluator"):
        if hasattr(found := importlib.import_module(module), name):
            return getattr(found, name)
    raise AttributeError(name)
