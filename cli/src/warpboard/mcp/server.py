"""The MCP server: the official SDK with our tools, resources and prompt, on stdin and stdout."""

import asyncio
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import anyio
import msgspec
from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from msgspec import structs

from shared.errors import Failed, Refused
from shared.presentation.units import about_text, one_line
from warpboard.api import Unavailable
from warpboard.context import AppContext
from warpboard.domain.output import OK
from warpboard.local_run import LocalHarness
from warpboard.mcp.context import Tool, ToolContext
from warpboard.mcp.problems import (
    PROMPT,
    PROMPT_ABOUT,
    PROMPT_ARGUMENTS,
    TEMPLATES,
    leaderboard,
    list_problems,
    list_resources,
    my_submissions,
    quota,
    read_resource,
    read_task,
    render_prompt,
)
from warpboard.mcp.results import compare, read_log, read_profile, read_result
from warpboard.mcp.submissions import cancel, follow, run_locally, submit

NAME, VERSION = "warpboard", "1"
ABOUT = (
    "Write GPU kernels that are right and fast. Begin with list_problems and read_task; then "
    "submit, follow and read_result until the verdict is passed, benchmark, compare, and submit "
    "with mode ranked what is better. The prompt optimise tells the loop."
)
# What the SDK's streams raise once one side of the connection is gone.
GONE = (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError)
Context = ServerRequestContext[Any, Any]
Page = types.PaginatedRequestParams | None
ERROR_LENGTH_MAX = 2000
LOG_IN = (
    "a person must log in: warpboard login, or set WARPBOARD_TOKEN in this server's environment"
)
FIXES = {
    "missing_credential": LOG_IN,
    "invalid_credential": LOG_IN,
    "scope_missing": "a person must give this server a token with that scope",
    "unknown_problem": "list_problems has the slugs",
    "unknown_leaderboard": "list_problems has the slugs",
    "unknown_submission": "my_submissions has the numbers",
    "unknown_gpu": "read_task has the GPU types",
    "quota_exceeded": "quota shows what is left; do not submit until it resets",
    "no_agent": "choose a GPU type that read_task lists with agents, or ask the person whether to "
    "submit with wait_for_agent true",
    "too_many_open": "follow or cancel your open submissions, then submit again",
    "already_ended": "read_result has how it ended",
}
DEFS = "#/$defs/"
PLACE = re.compile(r" - at `\$\.?([\w.\[\]]*)`$")
FIELD = re.compile(r"field `(\w+)`")
Arguments = TypeVar("Arguments", bound=msgspec.Struct)
# In the order of a typical session.
TOOLS = (
    Tool(list_problems),
    Tool(read_task),
    Tool(submit, is_reading=False),
    Tool(follow, is_slow=True),
    Tool(cancel, is_reading=False),
    Tool(run_locally, is_slow=True),
    Tool(read_result),
    Tool(read_log),
    Tool(read_profile),
    Tool(compare),
    Tool(leaderboard),
    Tool(my_submissions),
    Tool(quota),
)

LINE_BYTES_MAX = 8 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
WAITING_MAX = 64
# A client that closes stdin at once still gets answers that take no longer.
DRAIN_S = 1.0


@dataclass(frozen=True)
class RequestHandlers:
    """The handlers of the protocol's requests; each opens the platform again.

    A user who logs in or starts the platform need not restart this server.
    """

    context: AppContext
    harness: LocalHarness
    tools: dict[str, Tool]

    async def list_tools(self, _: Context, __: Page) -> types.ListToolsResult:
        """Return all tools."""
        tools = [
            types.Tool(
                name=tool.name,
                description=tool.about,
                input_schema=build_schema(tool.request_type),
                output_schema=build_schema(tool.response_type),
                annotations=types.ToolAnnotations(
                    read_only_hint=tool.is_reading, destructive_hint=False, open_world_hint=False
                ),
            )
            for tool in self.tools.values()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Run a tool; return its result, or why it failed."""
        tool = self.tools.get(params.name)
        if tool is None:
            reason = f"there is no tool {params.name!r}: {', '.join(self.tools)}"
            raise MCPError(code=types.INVALID_PARAMS, message=reason)
        try:
            request = parse_arguments(tool.name, tool.request_type, params.arguments or {})
            async with self.context.api() as api:
                # It does nothing if the caller asked for no progress.
                report = context.session.report_progress
                tool_context = ToolContext(api, self.harness, report)
                response = await tool.run(tool_context, **structs.asdict(request))
        except (Refused, Failed) as end:
            text = format_refusal(end) if isinstance(end, Refused) else format_failure(end)
            message = types.TextContent(text=text)
            return types.CallToolResult(content=[message], is_error=True)
        document = msgspec.json.encode(response)
        return types.CallToolResult(
            content=[types.TextContent(text=document.decode())],
            structured_content=msgspec.json.decode(document),
        )

    async def list_resources(self, _: Context, __: Page) -> types.ListResourcesResult:
        """Return the task and the starter of every problem."""
        resources = [
            types.Resource(uri=uri, name=name, description=about, mime_type=kind)
            for uri, name, about, kind in await self._load(list_resources)
        ]
        return types.ListResourcesResult(resources=resources)

    async def list_templates(self, _: Context, __: Page) -> types.ListResourceTemplatesResult:
        """Return the address templates of the resources."""
        templates = [
            types.ResourceTemplate(uri_template=uri, name=name, description=about, mime_type=kind)
            for uri, name, about, kind in TEMPLATES
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(
        self, _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return a resource of a problem."""
        uri = str(params.uri)
        text, kind = await self._load(lambda tool_context: read_resource(tool_context, uri))
        content = types.TextResourceContents(uri=uri, text=text, mime_type=kind)
        return types.ReadResourceResult(contents=[content])

    async def list_prompts(self, _: Context, __: Page) -> types.ListPromptsResult:
        """Return the only prompt."""
        arguments = [
            types.PromptArgument(name=name, description=about, required=is_required)
            for name, about, is_required in PROMPT_ARGUMENTS
        ]
        prompt = types.Prompt(name=PROMPT, description=PROMPT_ABOUT, arguments=arguments)
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(
        self, _: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Return the prompt for a problem."""
        try:
            text = render_prompt(params.name, params.arguments or {})
        except Refused as end:
            raise MCPError(code=types.INVALID_PARAMS, message=format_refusal(end)) from end
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description=PROMPT_ABOUT, messages=[message])

    async def _load(self, load: Callable[[ToolContext], Any]) -> Any:
        """Load a resource. Raises MCPError with the same text as a tool."""
        try:
            async with self.context.api() as api:
                return await load(ToolContext(api, self.harness, _ignore_progress))
        except Refused as end:
            raise MCPError(code=types.INVALID_PARAMS, message=format_refusal(end)) from end
        except Failed as end:
            raise MCPError(code=types.INTERNAL_ERROR, message=format_failure(end)) from end


async def _ignore_progress(done: float, total: float, sentence: str) -> None:
    """Ignore progress that nobody asked for."""


def _check_gone(group: BaseExceptionGroup[BaseException]) -> None:
    """Ignore that the client is gone; raise everything else.

    A client that stops reading has gone, like one that stops writing. Raises CancelledError after a
    signal, and whatever else is in the group.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    _, others = group.split(GONE)
    if others is not None:
        raise others


async def serve(context: AppContext) -> int:
    """Serve one client on stdio until it leaves; return the exit code. Raises Refused."""
    handlers = RequestHandlers(context, context.harness, {tool.name: tool for tool in TOOLS})
    server = Server(
        NAME,
        version=VERSION,
        title="Warpboard",
        instructions=ABOUT,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )
    wire: Any = StdioWire({tool.name for tool in TOOLS if tool.is_slow})
    try:
        # The SDK expects files, but uses only what the wire has.
        async with stdio_server(wire, wire) as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())
    except BaseExceptionGroup as group:
        _check_gone(group)
    return OK


def format_refusal(refused: Refused) -> str:
    """Return a refusal with its code, its field and the fix.

    >>> format_refusal(Refused("empty_file", "the kernel has no text", "source"))
    'the kernel has no text [code empty_file, field source]'
    """
    # Refusals of the command line name an option.
    field = (refused.field or "").lstrip("-")
    where = f", field {field}" if field else ""
    parts = [f"{one_line(refused.reason, ERROR_LENGTH_MAX)} [code {refused.code}{where}]"]
    if fix := FIXES.get(refused.code):
        parts.append(fix)
    if refused.retry_after_s is not None:
        parts.append(f"ask again in {about_text(refused.retry_after_s)}")
    return "; ".join(parts)


def format_failure(failed: Failed) -> str:
    """Return what failed, and that the server is still running.

    >>> format_failure(Failed("no answer"))
    'no answer [code failed]; nothing is wrong with your call'
    """
    code, advice = "failed", "nothing is wrong with your call"
    if isinstance(failed, Unavailable):
        code = "unavailable"
        advice = f"the same call may work in {about_text(failed.wait_s or 10.0)}"
    return f"{one_line(str(failed), ERROR_LENGTH_MAX)} [code {code}]; {advice}"


def build_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a struct's schema with an object at its root, as the protocol requires.

    >>> class Example(msgspec.Struct):
    ...     number: int
    >>> build_schema(Example)["properties"]
    {'number': {'type': 'integer'}}
    """
    document = msgspec.json.schema(kind)
    definitions: dict[str, Any] = document.get("$defs", {})
    root = dict(definitions.pop(document["$ref"].removeprefix(DEFS)))
    return root | ({"$defs": definitions} if definitions else {})


def parse_arguments(tool: str, kind: type[Arguments], values: Mapping[str, Any]) -> Arguments:
    """Parse a tool's arguments; numbers may be strings. Raises Refused with field and fix."""
    try:
        return msgspec.convert(dict(values), kind, strict=False)
    except msgspec.ValidationError as error:
        raise _argument_refusal(tool, build_schema(kind), str(error)) from error


def _argument_refusal(tool: str, schema: Mapping[str, Any], message: str) -> Refused:
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    match = PLACE.search(message) or FIELD.search(message)
    field = match[1].partition(".")[0].partition("[")[0] if match else ""
    if field in properties:
        fix = f"{field}: {_expected_text(properties[field])}"
    else:
        required = schema.get("required", [])
        names = ", ".join(f"{name} (required)" if name in required else name for name in properties)
        fix = f"{tool} takes {names or 'nothing'}"
    return Refused("bad_argument", f"{PLACE.sub('', message)}; {fix}", field or None)


def _expected_text(property_: Mapping[str, Any]) -> str:
    """Describe in words what an argument may be.

    >>> _expected_text({"enum": ["a", "b"], "description": "One of both."})
    'one of a, b (One of both.)'
    """
    kinds = [property_, *property_.get("anyOf", [])]
    enum = next((kind["enum"] for kind in kinds if "enum" in kind), None)
    types = " or ".join(str(kind["type"]) for kind in kinds if "type" in kind)
    expected = f"one of {', '.join(map(str, enum))}" if enum else types or "another value"
    description = next((kind["description"] for kind in kinds if "description" in kind), "")
    return f"{expected} ({description})" if description else expected


class Params(msgspec.Struct, frozen=True):
    """The parameters of a request, as far as they name a tool."""

    name: str | None = None


class MessageHeader(msgspec.Struct, frozen=True):
    """The part of a message that tells whether it is a request, and which one."""

    id: int | str | None = None
    method: str | None = None
    params: Params | None = None


class StdioWire:
    """Takes over stdin and stdout: the SDK iterates it like a file of lines, and writes to it.

    Other code here gets an empty stdin, and stderr as stdout. At the end of stdin the iteration
    waits for open requests, except those of slow tools. Our own threads read and write, because a
    thread that waits for a silent client cannot be stopped; it is abandoned when the process ends.
    Raises Refused if stdin or stdout was closed from the start.
    """

    def __init__(self, slow_tools: Collection[str]) -> None:
        self._slow_tools = slow_tools
        self._loop = asyncio.get_running_loop()
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_MAX)
        self._outgoing: queue.Queue[tuple[bytes, asyncio.Future[None]]] = queue.Queue()
        self._open_requests: set[int | str] = set()
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        try:
            input_fd, output_fd = os.dup(0), os.dup(1)
            null_fd = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null_fd, 0)
            os.close(null_fd)
            os.dup2(2, 1)
        except OSError as error:
            reason = f"a client speaks on stdin and stdout, but one of them is closed: {error}"
            raise Refused("no_client", reason) from error
        for target, fd in ((self._read, input_fd), (self._write, output_fd)):
            threading.Thread(target=target, args=(fd,), daemon=True).start()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        line = await self._incoming.get()
        if line is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await self._all_answered.wait()
            raise StopAsyncIteration
        header = _parse_header(line)
        name = header.params.name if header.params else None
        if header.id is not None and header.method is not None and name not in self._slow_tools:
            self._open_requests.add(header.id)
            self._all_answered.clear()
        return line.decode("utf-8", "replace")

    async def write(self, text: str) -> None:
        """Write a line. Raises BrokenPipeError when nobody reads any more."""
        line, written = text.encode(), self._loop.create_future()
        self._outgoing.put((line, written))
        await written
        header = _parse_header(line)
        if header.id is not None and header.method is None:
            self._open_requests.discard(header.id)
            if not self._open_requests:
                self._all_answered.set()

    async def flush(self) -> None:
        """Do nothing; lines are written at once."""

    def _read(self, fd: int) -> None:
        for line in _read_lines(fd):
            self._hand_over(line)
        self._hand_over(None)

    def _hand_over(self, line: bytes | None) -> None:
        """Hand a line over once there is room; drop it if the loop has ended."""
        with suppress(RuntimeError, CancelledError):
            putting = self._incoming.put(line)
            try:
                asyncio.run_coroutine_threadsafe(putting, self._loop).result()
            finally:
                putting.close()

    def _write(self, fd: int) -> None:
        while True:
            line, written = self._outgoing.get()
            trouble: OSError | None = None
            try:
                remaining = memoryview(line)
                while remaining:
                    remaining = remaining[os.write(fd, remaining) :]
            except OSError as error:
                trouble = BrokenPipeError(error.errno, error.strerror)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_finish_write, written, trouble)


def _finish_write(written: "asyncio.Future[None]", trouble: OSError | None) -> None:
    if not written.done():
        written.set_result(None) if trouble is None else written.set_exception(trouble)


def _read_lines(fd: int) -> Iterator[bytes]:
    """Yield each line of a file; lines that are too long are skipped."""
    buffer, is_long = bytearray(), False
    while True:
        try:
            chunk = os.read(fd, CHUNK_BYTES)
        except OSError:
            chunk = b""
        if not chunk:
            break
        *complete, last = chunk.split(b"\n")
        for piece in complete:
            buffer += piece
            if not is_long and buffer.strip():
                yield bytes(buffer)
            buffer.clear()
            is_long = False
        buffer += last
        if len(buffer) > LINE_BYTES_MAX:
            sys.stderr.write(f"warpboard: a message over {LINE_BYTES_MAX:,} bytes was left out\n")
            buffer.clear()
            is_long = True
    if not is_long and buffer.strip():
        yield bytes(buffer)


def _parse_header(line: bytes) -> MessageHeader:
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(line, type=MessageHeader)
    return MessageHeader()
