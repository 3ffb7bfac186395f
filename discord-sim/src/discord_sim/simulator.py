"""The simulator: its API server, helpers to set up channels and roles, and simulated users.

Around every operation the server checks bodies, authentication, validation and rate limits.
"""

import json
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import BadHttpMessage

from discord_sim import shapes
from discord_sim.cdn import FileUpload
from discord_sim.documents import JSON, RequestContent, Validators
from discord_sim.gateway import GUILDS
from discord_sim.guild import permission_bits
from discord_sim.operations import every_operation
from discord_sim.operations.channels import change_channel, remove_channel
from discord_sim.operations.messages import fill_message, new_message, publish_message
from discord_sim.record import RecordedRequest
from discord_sim.shapes import ApiError, Json, Problem, invalid_body
from discord_sim.state import Answer, Operation, Request, SimulatorState
from discord_sim.users import SimulatedUser

LINE_BYTES_MAX = 1 << 16
TOKEN = "simulated.bot.token"  # noqa: S105 - nobody's
API_VERSION = "v10"
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


@dataclass(frozen=True)
class ServerOptions:
    """The address to listen on and the id of the server; empty for a new id.

    With `public_names`, URLs in answers contain Discord's own host names.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    public_names: bool = False
    guild: str = ""


class Simulator(SimulatorState):
    """`async with Simulator(validators) as sim:`; then start a bot with `sim.url`, `sim.token`."""

    def __init__(
        self,
        validators: Validators | None = None,
        options: ServerOptions | None = None,
        token: str = TOKEN,
    ) -> None:
        self._options = options or ServerOptions()
        super().__init__(token, validators or Validators(), self._options.guild)
        self.url, self.port = "", 0
        self._runner: web.AppRunner | None = None
        # Functions that add routes besides those of Discord.
        self.extras: list[Callable[[web.Application], None]] = []

    @property
    def api_url(self) -> str:
        """The base URL of the API, as in discord.py's `Route.BASE`."""
        return f"{self.url}/api/{API_VERSION}"

    async def __aenter__(self) -> Self:
        app = self.application()
        self._runner = web.AppRunner(app, access_log=None, max_line_size=LINE_BYTES_MAX)
        await self._runner.setup()
        host, tls = self._options.host, self._options.tls
        await web.TCPSite(self._runner, host, self._options.port, ssl_context=tls).start()
        self.port = self._runner.addresses[0][1]
        secure = "s" if tls else ""
        self.url = f"http{secure}://{host}:{self.port}"
        is_public = self._options.public_names
        gateway = f"ws{secure}://{host}:{self.port}"
        self.gateway.url = "wss://gateway.discord.gg" if is_public else gateway
        self.cdn.base = "https://cdn.discordapp.com" if is_public else self.url
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self.deadlines:
            task.cancel()
        await self.gateway.drop()
        if self._runner:
            await self._runner.cleanup()

    def application(self) -> web.Application:
        """Build the application with the API, the gateway and attachments."""
        app = web.Application(client_max_size=REQUEST_BYTES_MAX + (1 << 20))
        app.router.add_get("/", self.gateway.serve)
        app.router.add_route("*", f"/api/{API_VERSION}/{{tail:.*}}", ApiServer(self).serve)
        for folder in ("attachments", "ephemeral-attachments"):
            app.router.add_get(f"/{folder}/{{channel}}/{{id}}/{{name}}", self.cdn.serve)
        for add_routes in self.extras:
            add_routes(app)
        return app

    def person(self, name: str, *roles: str) -> SimulatedUser:
        """Add a user with roles, by id."""
        return SimulatedUser(self, self.guild.add_user(name, list(roles)))

    def owner(self) -> SimulatedUser:
        """Return the owner of the server, who may do everything."""
        return SimulatedUser(self, self.guild.owner_id)

    async def add_channel(
        self,
        name: str,
        kind: int = shapes.TEXT,
        deny: Mapping[str, tuple[str, ...]] | None = None,
        identity: str = "",
    ) -> str:
        """Add a channel, and return its id; `deny` removes permissions of roles or users."""
        overwrites = [
            {
                "id": identity,
                "type": 0 if identity in self.guild.roles else 1,
                "deny": str(permission_bits(*names)),
                "allow": "0",
            }
            for identity, names in (deny or {}).items()
        ]
        channel = self.guild.add_channel(name, kind, identity)
        change_channel(self, channel, {"permission_overwrites": overwrites})
        await self.gateway.emit("CHANNEL_CREATE", channel, GUILDS)
        return str(channel["id"])

    async def add_role(self, name: str, *permissions: str) -> str:
        """Add a role, and return its id."""
        identity = self.guild.add_role(name, permission_bits(*permissions))
        event = {"guild_id": self.guild.id, "role": self.guild.roles[identity]}
        await self.gateway.emit("GUILD_ROLE_CREATE", event, GUILDS)
        return identity

    async def delete_channel(self, channel_id: str) -> None:
        """Delete a channel or thread, as a moderator does."""
        await remove_channel(self, self.guild.channel(channel_id))

    async def write(self, author: str, channel_id: str, body: Json) -> None:
        """Send a message as another user or bot."""
        message = new_message(self, channel_id, self.guild.users[author])
        fill_message(self, message, body, {})
        await publish_message(self, message)

    async def archive(self, thread_id: str, *, is_locked: bool = False) -> None:
        """Archive a thread, and possibly lock it, as a moderator does."""
        thread = self.guild.channel(thread_id)
        thread["thread_metadata"] |= {"archived": True, "locked": is_locked}
        await self.gateway.emit("THREAD_UPDATE", thread, GUILDS)

    async def fill_with_threads(self, channel_id: str, count: int) -> None:
        """Add threads of others; Discord allows 1000 active ones."""
        parent = self.guild.channel(channel_id)
        start = shapes.ThreadStart(shapes.PUBLIC_THREAD, self.guild.owner_id, self.clock.iso())
        for n in range(count):
            thread = shapes.thread(self.ids.next(), parent, {"name": f"thread {n}"}, start)
            self.guild.channels[thread["id"]] = thread

    async def ready(self, within_s: float = 60.0, identified: int = 0) -> None:
        """Wait for a bot with commands whose session is newer than `identified` others."""
        gateway = self.gateway
        await self.record.until(
            lambda: gateway.is_connected and gateway.identified > identified and self.commands,
            "a bot that is ready",
            within_s,
        )

    async def outage(self) -> None:
        """Make all of Discord unavailable until `recover`."""
        self.faults.is_down = self.gateway.is_down = True
        await self.gateway.drop()

    def recover(self) -> None:
        """End an outage."""
        self.faults.is_down = self.gateway.is_down = False
