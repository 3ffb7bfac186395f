"""ApiError (the bot made a bad request) and ActionNotOffered (the test made a mistake)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]

# Error codes of status 400 that a correct bot never gets.
FAULT_CODES = frozenset({40060, 50006, 50008, 50035, 50109})


@dataclass(frozen=True)
class Problem:
    """A problem of a body: its path, a message, and the violated rule."""

    path: Path
    message: str
    rule: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path)) or '<body>'}: {self.message} [{self.rule}]"

    def under(self, *path: str | int) -> "Problem":
        """Return the problem with a prefix for its path."""
        return Problem((*path, *self.path), self.message, self.rule)


@dataclass
class ApiError(Exception):
    """An error answer of Discord."""

    status: int
    code: int
    message: str
    problems: Sequence[Problem] = ()
    headers: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    is_injected: bool = False

    def is_fault(self) -> bool:
        """Whether the bot could have avoided the error."""
        return not self.is_injected and self.code in FAULT_CODES

    def describe(self) -> str:
        """Format the error in one line, for the list of violations."""
        problems = "; ".join(map(str, self.problems))
        return f"{self.code} {self.message}" + (f": {problems}" if problems else "")

    def body(self) -> dict[str, Any]:
        """Return the JSON answer; `errors` is a tree with `_errors` at the wrong places."""
        body: dict[str, Any] = {"message": self.message, "code": self.code, **self.extra}
        if self.problems:
            body["errors"] = _error_tree(self.problems)
        return body


def _error_tree(problems: Sequence[Problem]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for problem in problems:
        node = root
        for part in problem.path:
            node = node.setdefault(str(part), {})
        error = {"code": problem.rule, "message": problem.message}
        node.setdefault("_errors", []).append(error)
    return _drop_inner_errors(root)


def _drop_inner_errors(node: dict[str, Any]) -> dict[str, Any]:
    """Keep a node's own errors or its children's; Discord never sends both."""
    if "_errors" in node:
        return {"_errors": node["_errors"]}
    return {key: _drop_inner_errors(child) for key, child in node.items()}


class ActionNotOffered(AssertionError):  # noqa: N818 - it is a test's mistake, not the bot's
    """A test made a user do something that their Discord client does not offer."""


def unknown_object(what: str, code: int) -> ApiError:
    """Return the error for an object that does not exist."""
    return ApiError(404, code, f"Unknown {what}")


def invalid_body(problems: Sequence[Problem]) -> ApiError:
    """Return the error for an invalid body."""
    return ApiError(400, 50035, "Invalid Form Body", problems)


def thread_archived() -> ApiError:
    """Return the error for a change to an archived thread."""
    return ApiError(400, 50083, "Thread is archived")
