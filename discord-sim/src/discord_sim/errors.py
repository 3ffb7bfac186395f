"""Error answers of Discord: for bad requests, for rate limits, and those that tests inject.

`ActionNotOffered` is no answer: it says that a test made a mistake.
"""

import time
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Path = tuple[str | int, ...]

# Error codes of status 400 that a correct bot never gets.
FAULT_CODES = frozenset({40060, 50006, 50008, 50035, 50109})

DEFAULT_LIMIT = (50, 1.0)
GLOBAL_MAX, GLOBAL_S = 50, 1.0
# Without it, discord.py takes a 429 for a ban by Cloudflare and does not retry.
VIA = {"Via": "1.1 google"}
# Answers to interactions are not limited.
FREE_OF_LIMITS = "create_interaction_response"
MAJOR = ("channel_id", "guild_id", "webhook_token")
ANY = "*"
# Observed limits (requests per seconds) by operationId; Discord documents none.
LIMITS = {
    "create_message": (5, 5.0),
    "update_message": (5, 5.0),
    "create_thread": (50, 10.0),
    "execute_webhook": (5, 2.0),
    "update_webhook_message": (5, 2.0),
    "update_original_webhook_message": (5, 2.0),
}


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


def rate_limited_error(retry_s: float, *, scope: str = "user") -> ApiError:
    """Return Discord's error for a 429; the scope is user, shared or global."""
    is_global = scope == "global"
    headers = {**VIA, "Retry-After": f"{retry_s:.3f}", "X-RateLimit-Scope": scope}
    if is_global:
        headers["X-RateLimit-Global"] = "true"
    extra = {"retry_after": round(retry_s, 3), "global": is_global}
    return ApiError(429, 0, "You are being rate limited.", headers=headers, extra=extra)


@dataclass
class RateLimits:
    """Counts the requests per bucket, in real time because clients wait in real time."""

    limits: dict[str, tuple[int, float]] = field(default_factory=LIMITS.copy)
    global_max: int = GLOBAL_MAX
    _used: dict[str, tuple[float, int]] = field(default_factory=dict)
    _all: deque[float] = field(default_factory=deque)

    def take(self, operation: str, arguments: dict[str, str]) -> dict[str, str]:
        """Count a request, and return the headers of its answer. Raises `ApiError` 429."""
        if operation == FREE_OF_LIMITS:
            return {}
        now = time.monotonic()
        if not operation.endswith(("webhook", "webhook_message")):
            self._take_global(now)
        requests_max, window_s = self.limits.get(operation, DEFAULT_LIMIT)
        bucket = ":".join([operation, *(arguments.get(name, "") for name in MAJOR)])
        reset, used = self._used.get(bucket, (0.0, 0))
        if now >= reset:
            reset, used = now + window_s, 0
        self._used[bucket] = reset, used + 1
        left_s = reset - now
        headers = {
            **VIA,
            "X-RateLimit-Limit": str(requests_max),
            "X-RateLimit-Remaining": str(max(requests_max - used - 1, 0)),
            "X-RateLimit-Reset": f"{time.time() + left_s:.3f}",
            "X-RateLimit-Reset-After": f"{left_s:.3f}",
            "X-RateLimit-Bucket": f"{zlib.crc32(operation.encode()):08x}",
        }
        if used >= requests_max:
            error = rate_limited_error(left_s)
            error.headers = headers | error.headers
            raise error
        return headers

    def _take_global(self, now: float) -> None:
        while self._all and now - self._all[0] > GLOBAL_S:
            self._all.popleft()
        if len(self._all) >= self.global_max:
            raise rate_limited_error(GLOBAL_S - (now - self._all[0]), scope="global")
        self._all.append(now)


@dataclass
class _PlannedError:
    operation: str
    error: ApiError
    left: int


@dataclass
class Faults:
    """The planned faults; `is_down` is an outage of everything."""

    is_down: bool = False
    _planned: list[_PlannedError] = field(default_factory=list)
    _lost: list[str] = field(default_factory=list)

    def fail(self, operation: str, status: int = 500, code: int = 0, times: int = 1) -> None:
        """Answer an operation (`*` is any) with an error, the given number of times."""
        text = "Internal Server Error" if status >= 500 else "injected"
        error = ApiError(status, code, text, headers=dict(VIA), is_injected=True)
        self._planned.append(_PlannedError(operation, error, times))

    def limit(self, operation: str, retry_s: float, scope: str = "shared") -> None:
        """Answer an operation once with 429; the scope is user, shared or global."""
        error = replace(rate_limited_error(retry_s, scope=scope), is_injected=True)
        self._planned.append(_PlannedError(operation, error, 1))

    def lose(self, operation: str, times: int = 1) -> None:
        """Perform an operation but cut the connection before the answer."""
        self._lost += [operation] * times

    def takes_answer(self, operation: str) -> bool:
        """Whether the answer to an operation is lost."""
        for name in (operation, ANY):
            if name in self._lost:
                self._lost.remove(name)
                return True
        return False

    def strike(self, operation: str) -> None:
        """Raise the error that is planned for an operation, if any."""
        if self.is_down:
            raise ApiError(503, 0, "Service Unavailable", headers=dict(VIA), is_injected=True)
        for planned in self._planned:
            if planned.operation in (ANY, operation):
                planned.left -= 1
                if planned.left == 0:
                    self._planned.remove(planned)
                raise planned.error
