"""The API server: bodies, authentication, validation and rate limits around every operation."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import BadHttpMessage

from discord_sim import shapes
from discord_sim.cdn import FileUpload
from discord_sim.documents import JSON, RequestContent
from discord_sim.errors import ApiError, Problem, invalid_body
from discord_sim.operations import every_operation
from discord_sim.record import RecordedRequest
from discord_sim.state import Answer, Operation, Request, SimulatorState

REQUEST_BYTES_MAX = 25 * 1024 * 1024
FORM = "multipart/form-data"
UNREADABLE = ApiError(400, 50109, "The request body contains invalid JSON.")
BodyAndFiles = tuple[Any, dict[int, FileUpload]]
AGENT = "DiscordBot ("
# The member of a union of bodies, by operation and by whether the channel is a thread.
BRANCHES = {
    ("update_channel", True): "UpdateThreadRequestPartial",
    ("update_channel", False): "UpdateGuildChannelRequestPartial",
}


async def read_body(request: web.Request) -> BodyAndFiles:
    """Read a body and its files. Raises `ApiError` 40005, 50035 and 50109."""
    if (request.content_length or 0) > REQUEST_BYTES_MAX:
        raise ApiError(413, 40005, "Request entity too large")
    if not request.can_read_body:
        return None, {}
    if request.content_type == FORM:
        return await _read_form(request)
    if request.content_type != JSON:
        message = f'Expected "Content-Type" header to be {JSON}, got {request.content_type}'
        raise invalid_body([Problem((), message, "CONTENT_TYPE_INVALID")])
    return _parse_json(await request.read()), {}


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise UNREADABLE from error


async def _read_form(request: web.Request) -> BodyAndFiles:
    body: Any = {}
    files: dict[int, FileUpload] = {}
    try:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader):
                raise invalid_body([Problem((), "a form within a form", "FORM_PART")])
            name = part.name or ""
            data = bytes(await part.read(decode=True))
            if name == "payload_json":
                body = _parse_json(data)
            elif match := re.fullmatch(r"files\[(\d+)\]", name):
                media = part.headers.get("Content-Type", "application/octet-stream")
                files[int(match[1])] = FileUpload(part.filename or "unknown", media, data)
            else:
                raise invalid_body([Problem((name,), "unexpected part of a form", "FORM_PART")])
    except (BadHttpMessage, ValueError) as error:
        raise invalid_body([Problem((), "the form cannot be read", "FORM_PART")]) from error
    return body, files


@dataclass
class _RequestContext:
    operation: str = "?"
    path: str = ""
    request: Request = field(default_factory=lambda: Request({}, {}))
    headers: dict[str, str] = field(default_factory=dict)


class ApiServer:
    """Answers and records every request under /api/v10."""

    def __init__(self, state: SimulatorState) -> None:
        self._state = state
        self._operations = every_operation()

    async def serve(self, request: web.Request) -> web.Response:
        """Answer one request."""
        context = _RequestContext(path=f"/{request.match_info['tail']}")
        try:
            status, answer = await self._answer(request, context)
        except ApiError as error:
            status, answer = error.status, error.body()
            context.headers |= error.headers
            if error.is_fault():
                self._state.record.violations.append(f"{context.operation}: {error.describe()}")
        self._check_answer(context.operation, status, answer)
        recorded = RecordedRequest(
            context.operation,
            context.path,
            context.request.body,
            context.request.files,
            status,
            answer,
            self._state.clock.now(),
        )
        # The answer is encoded now, because its objects may change before it is sent.
        data = None if answer is None else json.dumps(answer).encode()
        self._state.record.calls.append(recorded)
        await self._state.record.tell()
        if self._state.faults.takes_answer(context.operation) and request.transport:
            request.transport.abort()
        if data is None:
            return web.Response(status=status, headers=context.headers)
        # With a charset in the header, discord.py would not parse the JSON.
        headers = {**context.headers, "Content-Type": JSON}
        return web.Response(status=status, body=data, headers=headers)

    async def _answer(self, request: web.Request, context: _RequestContext) -> Answer:
        if self._state.faults.is_down:
            self._state.faults.strike("")
        operation, path = self._find(request.method, context.path)
        context.operation = operation.id
        self._authenticate(request, operation)
        context.request = Request(path, dict(request.query))
        body, files = await read_body(request)
        context.request = Request(path, dict(request.query), body, files)
        self._state.faults.strike(operation.id)
        context.headers = self._state.limits.take(operation.id, path)
        self._validate(operation, context.request)
        return await operation.handle(self._state, context.request)

    def _find(self, method: str, path: str) -> tuple[Operation, dict[str, str]]:
        for operation in self._operations:
            match = operation.pattern.fullmatch(path)
            if operation.method == method and match:
                return operation, match.groupdict()
        document, record = self._state.validators.document, self._state.record
        name = document.find_operation(method, path) if document else None
        if name:
            record.own_faults.append(f"{name} is not simulated")
            raise ApiError(501, 0, f"the simulator does not have {name}")
        record.violations.append(f"{method} {path}: Discord has no such operation")
        raise ApiError(404, 0, "404: Not Found")

    def _authenticate(self, request: web.Request, operation: Operation) -> None:
        authorization = request.headers.get("Authorization")
        is_bot = authorization == f"Bot {self._state.token}"
        if not is_bot and (authorization or not operation.is_open):
            raise ApiError(401, 0, "401: Unauthorized")
        # Requests with an interaction's token have the HTTP library's own user agent.
        if not operation.is_open and not request.headers.get("User-Agent", "").startswith(AGENT):
            raise ApiError(403, 40333, "internal network error")

    def _validate(self, operation: Operation, request: Request) -> None:
        document = self._state.validators.document
        if document is None:
            return
        branch = self._branch(operation.id, request)
        content = RequestContent(operation.id, request.path, request.query, request.body, branch)
        if problems := document.check_request(content):
            raise invalid_body(problems)
        self._state.record.lints |= document.lint_request(content)

    def _branch(self, operation: str, request: Request) -> str | None:
        channel = self._state.guild.channels.get(request.path.get("channel_id", ""))
        if channel is None or channel["type"] == shapes.DM:
            return None
        if operation == "create_thread":
            is_forum = channel["type"] == shapes.FORUM
            kind = "CreateForumThreadRequest"
            return kind if is_forum else "CreateTextThreadWithoutMessageRequest"
        return BRANCHES.get((operation, channel["type"] in shapes.THREADS))

    def _check_answer(self, operation: str, status: int, answer: Any) -> None:
        document = self._state.validators.document
        if document is None or operation not in document.operations or status >= 500:
            return
        problems = document.check_answer(operation, status, answer)
        self._state.record.own_faults += [f"{operation} -> {status}: {it}" for it in problems]
