"""A problem's files, in a public form, compiled to one immutable version."""

from shared.problems.compilation import compile_problem
from shared.problems.version import Needs, ProblemVersion

__all__ = ["Needs", "ProblemVersion", "compile_problem"]
