"""What goes wrong here: ApiError (the bot is refused) and NotOffered (the test's mistake)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]

# The answers of status 400 that a well-made bot never gets.
FAULT_CODES = frozenset({40060, 50006, 50008, 50035, 50109})


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a body: where, what, and by which rule."""

    path: Path
    message: str
    rule: str

    def __str__(self) -> str:
        """In one line."""
        return f"{'.'.join(map(str, self.path)) or '<body>'}: {self.message} [{self.rule}]"

    def under(self, *path: str | int) -> "Problem":
        """The same, of a body inside another."""
        return Problem((*path, *self.path), self.message, self.rule)


@dataclass
class ApiError(Exception):
    """What Discord answers instead of doing what it was asked for."""

    status: int
    code: int
    message: str
    problems: Sequence[Problem] = ()
    headers: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    is_injected: bool = False

    def is_fault(self) -> bool:
        """Whether the bot should have known better."""
        return not self.is_injected and self.code in FAULT_CODES

    def said(self) -> str:
        """In one line, for the list of violations."""
        told = "; ".join(map(str, self.problems))
        return f"{self.code} {self.message}" + (f": {told}" if told else "")

    def body(self) -> dict[str, Any]:
        """As JSON: `errors` is a tree in which `_errors` hang where the body is wrong."""
        found: dict[str, Any] = {"message": self.message, "code": self.code, **self.extra}
        if self.problems:
            found["errors"] = _tree(self.problems)
        return found


def _tree(problems: Sequence[Problem]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for problem in problems:
        node = root
        for part in problem.path:
            node = node.setdefault(str(part), {})
        told = {"code": problem.rule, "message": problem.message}
        node.setdefault("_errors", []).append(told)
    return _either(root)


def _either(node: dict[str, Any]) -> dict[str, Any]:
    """A node has its own errors or its children's; Discord never sends both."""
    if "_errors" in node:
        return {"_errors": node["_errors"]}
    return {key: _either(child) for key, child in node.items()}


class NotOffered(AssertionError):  # noqa: N818 - it is a test's mistake, not the bot's
    """The test asked a person to do what their Discord client would not let them do."""


def unknown(what: str, code: int) -> ApiError:
    """There is no such thing."""
    return ApiError(404, code, f"Unknown {what}")


def invalid(problems: Sequence[Problem]) -> ApiError:
    """The body is not as it must be."""
    return ApiError(400, 50035, "Invalid Form Body", problems)
