"""Discord's objects as JSON, with each field that its document requires, and its error answers.

Errors are for bad requests, for rate limits, and those that tests inject. `ActionNotOffered` is no
answer: it says that a test made a mistake.
"""

import time
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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


Json = dict[str, Any]

TEXT, DM, CATEGORY, FORUM = 0, 1, 4, 15
PUBLIC_THREAD, PRIVATE_THREAD = 11, 12
THREADS = (10, PUBLIC_THREAD, PRIVATE_THREAD)

SUPPRESS, HAS_THREAD, EPHEMERAL, LOADING = 1 << 2, 1 << 5, 1 << 6, 1 << 7
SUPPRESS_NOTIFICATIONS, COMPONENTS_V2 = 1 << 12, 1 << 15

FILE_BYTES_MAX = 10 * 1024 * 1024


def user(identity: str, name: str, *, is_bot: bool = False) -> Json:
    """Return a user."""
    return {
        **dict.fromkeys(("avatar", "primary_guild")),
        "id": identity,
        "username": name,
        "global_name": name.title(),
        "discriminator": "0",
        "public_flags": 0,
        "flags": 0,
        "bot": is_bot,
        "system": False,
    }


def member(user_object: Json, roles: list[str], joined_at: str) -> Json:
    """Return a member of the server."""
    nulls = ("avatar", "banner", "communication_disabled_until", "nick", "premium_since")
    return {
        **dict.fromkeys(nulls),
        **dict.fromkeys(("pending", "mute", "deaf"), False),
        "flags": 0,
        "joined_at": joined_at,
        "roles": roles,
        "user": user_object,
    }


def role(identity: str, name: str, permissions: int, position: int) -> Json:
    """Return a role; the one of @everyone has the server's id."""
    return {
        **dict.fromkeys(("hoist", "managed", "mentionable"), False),
        **dict.fromkeys(("icon", "unicode_emoji")),
        "id": identity,
        "name": name,
        "permissions": str(permissions),
        "position": position,
        "color": 0,
        "flags": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
    }


def channel(identity: str, guild_id: str, kind: int, name: str, position: int) -> Json:
    """Return a channel of the server that is not a thread."""
    result = {
        "id": identity,
        "type": kind,
        "guild_id": guild_id,
        "name": name,
        "position": position,
        "flags": 0,
        "parent_id": None,
        "permission_overwrites": [],
        "nsfw": False,
    }
    if kind in (TEXT, FORUM):
        result |= {"topic": None, "rate_limit_per_user": 0, "last_message_id": None}
    if kind == FORUM:
        result |= {"available_tags": [], "default_reaction_emoji": None}
        result |= {"default_sort_order": None, "default_forum_layout": 0}
    return result


class ThreadStart(NamedTuple):
    """The kind of a thread, its owner, and when it was created."""

    kind: int
    owner_id: str
    at: str


def thread(identity: str, parent: Json, body: Json, start: ThreadStart) -> Json:
    """Return a new thread."""
    metadata: Json = {
        "archived": False,
        "archive_timestamp": start.at,
        "create_timestamp": start.at,
        "auto_archive_duration": body.get("auto_archive_duration") or 4320,
        "locked": False,
    }
    if start.kind == PRIVATE_THREAD:
        metadata["invitable"] = body.get("invitable") is not False
    result: Json = {
        "id": identity,
        "type": start.kind,
        "name": body["name"],
        "owner_id": start.owner_id,
        "guild_id": parent["guild_id"],
        "parent_id": parent["id"],
        "last_message_id": None,
        "flags": 0,
        "message_count": 0,
        "member_count": 1,
        "total_message_sent": 0,
        "rate_limit_per_user": body.get("rate_limit_per_user") or 0,
        "thread_metadata": metadata,
    }
    if parent["type"] == FORUM:
        result["applied_tags"] = [str(tag) for tag in body.get("applied_tags") or []]
    return result


def thread_member(thread_id: str, user_id: str, at: str) -> Json:
    """Return a member of a thread."""
    return {"id": thread_id, "user_id": user_id, "join_timestamp": at, "flags": 0}


def direct_channel(identity: str, recipient: Json) -> Json:
    """Return the channel of direct messages with a user."""
    result = {"id": identity, "type": DM, "flags": 0, "last_message_id": None}
    return {**result, "recipients": [recipient]}


def message(identity: str, channel_id: str, author: Json, at: str) -> Json:
    """Return an empty message."""
    lists = ("mentions", "mention_roles", "attachments", "embeds", "components")
    return {
        **{name: list[Any]() for name in lists},
        "id": identity,
        "channel_id": channel_id,
        "author": author,
        "timestamp": at,
        "type": 0,
        "content": "",
        "flags": 0,
        "edited_timestamp": None,
        "pinned": False,
        "mention_everyone": False,
        "tts": False,
    }


def command(identity: str, body: Json) -> Json:
    """Return a stored command, without the ids of its application and server."""
    permissions = body.get("default_member_permissions")
    localized = ("contexts", "name_localizations", "description_localizations")
    return {
        **{name: body.get(name) for name in localized},
        "id": identity,
        "type": body.get("type") or 1,
        "name": body["name"],
        "description": body.get("description") or "",
        "options": without_none(body.get("options") or []),
        "default_member_permissions": None if permissions is None else str(permissions),
        "dm_permission": body.get("dm_permission", True),
        "nsfw": bool(body.get("nsfw")),
        "integration_types": body.get("integration_types") or [0],
    }


def emoji(identity: str, name: str, creator: Json) -> Json:
    """Return an emoji of an application."""
    result = {"id": identity, "name": name, "roles": [], "user": creator, "available": True}
    return {**result, "require_colons": True, "managed": False, "animated": False}


def without_none(options: list[Json]) -> list[Json]:
    """Return the options of a command without fields that are null."""
    return [
        {
            key: without_none(value) if key == "options" else value
            for key, value in option.items()
            if value is not None
        }
        for option in options
    ]
