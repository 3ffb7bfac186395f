"""Runs submissions against problems and reports the results."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from harness.evaluations import Evaluation, Reward, compute_reward
    from harness.evaluator import Evaluator, EvaluatorError, Source

__all__ = ["Evaluation", "Evaluator", "EvaluatorError", "Reward", "Source", "compute_reward"]
_MODULES = ("harness.evaluations", "harness.evaluator")


def __getattr__(name: str) -> object:
    """Import a name when it is used: every worker imports this package, and needs none of them."""
    import importlib

    if name in __all__:
        for module in map(importlib.import_module, _MODULES):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
