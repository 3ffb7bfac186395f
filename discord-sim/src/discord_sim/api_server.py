"""The API server: bodies, authentication, validation and rate limits around every operation."""

import json
import re
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
# The member of a union of bodies, by operation and by whether the channel is a forum or a thread.
BRANCHES = {
    ("create_thread", True): "CreateForumThreadRequest",
    ("create_thread", False): "CreateTextThreadWithoutMessageRequest",
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


class ApiServer:
    """Answers and records every request under /api/v10."""

    def __init__(self, state: SimulatorState) -> None:
        self._state = state
        self._operations = every_operation()

    async def serve(self, request: web.Request) -> web.Response:
        """Answer one request."""
        state, recorded = self._state, RecordedRequest(f"/{request.match_info['tail']}")
        headers: dict[str, str] = {}
        try:
            recorded.status, recorded.answer = await self._answer(request, recorded, headers)
        except ApiError as error:
            recorded.status, recorded.answer = error.status, error.body()
            headers |= error.headers
            if error.is_fault():
                state.record.violations.append(f"{recorded.operation}: {error.describe()}")
        self._check_answer(recorded.operation, recorded.status, recorded.answer)
        # The answer is encoded now, because its objects may change before it is sent.
        data = None if recorded.answer is None else json.dumps(recorded.answer).encode()
        recorded.at = state.clock.now()
        state.record.calls.append(recorded)
        await state.record.tell()
        if state.faults.takes_answer(recorded.operation) and request.transport:
            request.transport.abort()
        # With a charset in the header, discord.py would not parse the JSON.
        headers |= {} if data is None else {"Content-Type": JSON}
        return web.Response(status=recorded.status, body=data, headers=headers)

    async def _answer(
        self, request: web.Request, recorded: RecordedRequest, headers: dict[str, str]
    ) -> Answer:
        state = self._state
        if state.faults.is_down:
            state.faults.strike("")
        operation, path = self._find(request.method, recorded.path)
        recorded.operation = operation.id
        self._authenticate(request, operation)
        recorded.body, recorded.files = await read_body(request)
        parsed = Request(path, dict(request.query), recorded.body, recorded.files)
        state.faults.strike(operation.id)
        headers |= state.limits.take(operation.id, path)
        self._validate(operation, parsed)
        return await operation.handle(state, parsed)

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
        branch = self._branch(operation.id, request.path.get("channel_id", ""))
        content = RequestContent(operation.id, request.path, request.query, request.body, branch)
        if problems := document.check_request(content):
            raise invalid_body(problems)
        self._state.record.lints |= document.lint_request(content)

    def _branch(self, operation: str, channel_id: str) -> str | None:
        kind = self._state.guild.channels.get(channel_id, {"type": shapes.DM})["type"]
        special = (shapes.FORUM,) if operation == "create_thread" else shapes.THREADS
        return None if kind == shapes.DM else BRANCHES.get((operation, kind in special))

    def _check_answer(self, operation: str, status: int, answer: Any) -> None:
        document = self._state.validators.document
        if document is None or operation not in document.operations or status >= 500:
            return
        problems = document.check_answer(operation, status, answer)
        self._state.record.own_faults += [f"{operation} -> {status}: {it}" for it in problems]
