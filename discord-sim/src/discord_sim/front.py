"""The API's front door: who asks, what, how often, by the rules; then the operation itself."""

import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from discord_sim import bodies, shapes
from discord_sim.errors import ApiError, invalid
from discord_sim.judges.openapi import JSON, Asked
from discord_sim.operations import every_operation
from discord_sim.operations.operation import Answer, Operation, Request
from discord_sim.parts import Parts
from discord_sim.record import Done

AGENT = "DiscordBot ("
# Unions of bodies: which member is meant, by the kind of the channel.
BRANCHES = {
    ("update_channel", True): "UpdateThreadRequestPartial",
    ("update_channel", False): "UpdateGuildChannelRequestPartial",
}


@dataclass
class _Visit:
    """What is known of a request so far, for the record."""

    operation: str = "?"
    path: str = ""
    request: Request = field(default_factory=lambda: Request({}, {}))
    headers: dict[str, str] = field(default_factory=dict)


class Front:
    """Answers every request under /api/v10, and writes down how."""

    def __init__(self, parts: Parts) -> None:
        """A door to some Discord."""
        self._parts = parts
        self._operations = every_operation()

    async def serve(self, request: web.Request) -> web.Response:
        """One request."""
        visit = _Visit(path=f"/{request.match_info['tail']}")
        try:
            status, answer = await self._answer(request, visit)
        except ApiError as error:
            status, answer = error.status, error.body()
            visit.headers |= error.headers
            if error.is_fault():
                self._parts.record.violations.append(f"{visit.operation}: {error.said()}")
        self._check_answer(visit.operation, status, answer)
        asked = visit.request
        at = self._parts.clock.now()
        done = Done(visit.operation, visit.path, asked.body, asked.files, status, answer, at)
        # What was answered is sent as it is now, whatever happens to it meanwhile.
        data = None if answer is None else json.dumps(answer).encode()
        self._parts.record.calls.append(done)
        await self._parts.record.tell()
        if self._parts.faults.takes_answer(visit.operation) and request.transport:
            request.transport.abort()
        if data is None:
            return web.Response(status=status, headers=visit.headers)
        # With a charset beside it, discord.py takes JSON for text.
        headers = {**visit.headers, "Content-Type": JSON}
        return web.Response(status=status, body=data, headers=headers)

    async def _answer(self, request: web.Request, visit: _Visit) -> Answer:
        if self._parts.faults.is_down:
            self._parts.faults.strike("")
        operation, path = self._find(request.method, visit.path)
        visit.operation = operation.id
        self._admit(request, operation)
        visit.request = Request(path, dict(request.query))
        body, files = await bodies.read(request)
        visit.request = Request(path, dict(request.query), body, files)
        self._parts.faults.strike(operation.id)
        visit.headers = self._parts.limits.take(operation.id, path)
        self._judge(operation, visit.request)
        return await operation.handle(self._parts, visit.request)

    def _find(self, method: str, path: str) -> tuple[Operation, dict[str, str]]:
        for one in self._operations:
            if one.method == method and (found := one.pattern.fullmatch(path)):
                return one, found.groupdict()
        document, record = self._parts.judges.document, self._parts.record
        known = document.knows(method, path) if document else None
        if known:
            record.own_faults.append(f"{known} is not simulated")
            raise ApiError(501, 0, f"the simulator does not have {known}")
        record.violations.append(f"{method} {path}: Discord has no such operation")
        raise ApiError(404, 0, "404: Not Found")

    def _admit(self, request: web.Request, operation: Operation) -> None:
        told = request.headers.get("Authorization")
        is_known = told == f"Bot {self._parts.token}"
        if not is_known and (told or not operation.is_open):
            raise ApiError(401, 0, "401: Unauthorized")
        # What goes by an interaction's token has the HTTP library's own name.
        if not operation.is_open and not request.headers.get("User-Agent", "").startswith(AGENT):
            raise ApiError(403, 40333, "internal network error")

    def _judge(self, operation: Operation, request: Request) -> None:
        document = self._parts.judges.document
        if document is None:
            return
        branch = self._branch(operation.id, request)
        asked = Asked(operation.id, request.path, request.query, request.body, branch)
        if found := document.check_request(asked):
            raise invalid(found)
        self._parts.record.lints |= document.lint_request(asked)

    def _branch(self, operation: str, request: Request) -> str | None:
        channel = self._parts.guild.channels.get(request.path.get("channel_id", ""))
        if channel is None or channel["type"] == shapes.DM:
            return None
        if operation == "create_thread":
            is_forum = channel["type"] == shapes.FORUM
            kind = "CreateForumThreadRequest"
            return kind if is_forum else "CreateTextThreadWithoutMessageRequest"
        return BRANCHES.get((operation, channel["type"] in shapes.THREADS))

    def _check_answer(self, operation: str, status: int, answer: Any) -> None:
        document = self._parts.judges.document
        if document is None or operation not in document.operations or status >= 500:
            return
        found = document.check_answer(operation, status, answer)
        self._parts.record.own_faults += [f"{operation} -> {status}: {one}" for one in found]
