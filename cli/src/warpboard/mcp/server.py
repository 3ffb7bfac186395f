"""The MCP server: the SDK's server with our tools, resources and prompt, on stdin and stdout."""

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import anyio
import msgspec
from mcp import MCPError, types
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.stdio import stdio_server
from pydantic import AnyUrl, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from shared.api_client import Unavailable
from shared.errors import Failed, Refused
from shared.presentation.units import about_text, one_line
from warpboard.context import AppContext
from warpboard.domain.output import OK
from warpboard.mcp.archive import search_archive
from warpboard.mcp.contests import list_contests, read_contest, register_for_contest
from warpboard.mcp.context import ToolContext, ToolResult
from warpboard.mcp.evaluations import evaluate_batch
from warpboard.mcp.problems import (
    STARTER_URI,
    TASK_URI,
    leaderboard,
    list_problems,
    load_problems,
    my_submissions,
    optimise,
    quota,
    read_task,
    render_page,
    render_starter,
)
from warpboard.mcp.results import compare, read_lineage, read_log, read_profile, read_result
from warpboard.mcp.submissions import cancel, follow, run_locally, submit
from warpboard.mcp.wire import StdioWire

NAME, VERSION = "warpboard", "1"
ABOUT = (
    "Write GPU kernels that are right and fast. Begin with list_problems and read_task; then "
    "submit, follow and read_result until the verdict is passed, benchmark, compare, and submit "
    "with mode ranked what is better. The prompt optimise describes these steps. A result leaves "
    "out fields that are null."
)
# What the SDK's streams raise once one side of the connection is gone.
GONE = (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError)
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
    "licence_missing": "show this to the person, and submit with the licence that they choose, or "
    "with none",
    "too_many_open": "follow or cancel your open submissions, then submit again",
    "unknown_contest": "list_contests has the slugs",
    "not_registered": "show your user the terms of read_contest before register_for_contest",
    "contest_closed": "read_contest has the phases with what each accepts",
    "already_ended": "read_result has how it ended",
}
PAGE_TYPE, SOURCE_TYPE = "text/markdown", "text/plain"
# In the order of a typical session.
TOOLS: tuple[Callable[..., Awaitable[ToolResult]], ...] = (
    *(
        list_problems,
        read_task,
        search_archive,
        evaluate_batch,
        submit,
        follow,
        cancel,
        run_locally,
    ),
    *(read_result, read_log, read_profile, compare, read_lineage, leaderboard),
    *(my_submissions, quota),
    *(list_contests, read_contest, register_for_contest),
)
WRITING_TOOLS = (evaluate_batch, submit, cancel, register_for_contest)
SLOW_TOOLS = (evaluate_batch, follow, run_locally)
T = TypeVar("T")


class UntitledSchema(GenerateJsonSchema):
    """A schema without titles, which would repeat the names of the arguments."""

    def field_title_should_be_set(self, _: Any) -> bool:
        """Return that no field has a title."""
        return False


class WarpboardServer(MCPServer[None]):
    """The platform as an MCP server; each request opens the platform again.

    A user who logs in or starts the platform need not restart this server.
    """

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self._tools = {tool.name: tool for tool in map(self._build_tool, TOOLS)}
        super().__init__(
            NAME,
            version=VERSION,
            title="Warpboard",
            instructions=ABOUT,
            tools=list(self._tools.values()),
            subscriptions=False,
            log_level="ERROR",
        )
        self.prompt()(optimise)
        for uri, name, about, kind, read in (
            (TASK_URI, "task", "A problem: statement, reference, rules.", PAGE_TYPE, self._task),
            (STARTER_URI, "starter", "The starter file for a kernel.", SOURCE_TYPE, self._starter),
        ):
            self.resource(uri, name=name, description=about, mime_type=kind)(read)

    async def _task(self, slug: str) -> str:
        return await self._load(lambda context: render_page(context, slug))

    async def _starter(self, slug: str) -> str:
        return await self._load(lambda context: render_starter(context, slug))

    def _build_tool(self, function: Callable[..., Awaitable[ToolResult]]) -> Tool:
        """Return the tool of a function, whose parameters after the first are its arguments."""

        @functools.wraps(function)
        async def call(context: Context[None, Any], **arguments: Any) -> types.CallToolResult:
            try:
                async with self._app.api() as api:
                    # Nothing is reported if the caller asked for no progress.
                    tool_context = ToolContext(api, self._app.harness, context.report_progress)
                    result = await function(tool_context, **arguments)
            except (Refused, Failed) as error:
                return _error_result(error)
            document = result.document
            text = msgspec.json.encode(document).decode()
            return types.CallToolResult(
                content=[types.TextContent(text=text)], structured_content=document
            )

        tool = Tool.from_function(
            call,
            description=" ".join((function.__doc__ or "").split()),
            context_kwarg="context",
            annotations=types.ToolAnnotations(
                read_only_hint=function not in WRITING_TOOLS,
                destructive_hint=False,
                open_world_hint=False,
            ),
            structured_output=False,
        )
        # By default, the SDK ignores an argument that a tool does not take.
        model = tool.fn_metadata.arg_model
        model.model_config["extra"] = "forbid"
        model.model_rebuild(force=True)
        tool.parameters = model.model_json_schema(schema_generator=UntitledSchema)
        del tool.parameters["title"]
        return tool

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run a tool. The result says which argument is wrong, and what it may be."""
        if name not in self._tools:
            reason = f"there is no tool {name!r}: {', '.join(self._tools)}"
            raise MCPError(code=types.INVALID_PARAMS, message=reason)
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                schema = self._tools[name].parameters
                return _error_result(argument_refusal(name, schema, error.__cause__))
            sys.stderr.write(f"warpboard: {name} failed: {error.__cause__!r}\n")
            message = f"{name} failed because of an error in this server, which its stderr names"
            raise MCPError(code=types.INTERNAL_ERROR, message=message) from error

    async def list_resources(self) -> list[types.Resource]:
        """Return the task and the starter of every problem."""
        resources = []
        for problem in (await self._load(load_problems)).items:
            slug, title = problem.slug, problem.title
            task, starter = (uri.format(slug=slug) for uri in (TASK_URI, STARTER_URI))
            about = (f"The task {title}.", f"The starter file for {title}.")
            resources += [
                types.Resource(uri=task, name=slug, description=about[0], mime_type=PAGE_TYPE),
                types.Resource(
                    uri=starter,
                    name=f"{slug} starter",
                    description=about[1],
                    mime_type=SOURCE_TYPE,
                ),
            ]
        return resources

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[None, Any] | None = None
    ) -> Iterable[ReadResourceContents] | types.InputRequiredResult:
        """Return a resource of a problem."""
        try:
            return await super().read_resource(uri, context)
        except ResourceNotFoundError as error:
            reason = f"there is no page {str(uri)!r}: there are {TASK_URI} and {STARTER_URI}"
            refused = Refused("unknown_page", reason, "uri")
            raise MCPError(code=types.INVALID_PARAMS, message=format_refusal(refused)) from error

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: Context[None, Any] | None = None,
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """Return the prompt for a problem."""
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            refused = Refused("bad_argument", f"{error}: name the problem by its slug", "problem")
            raise MCPError(code=types.INVALID_PARAMS, message=format_refusal(refused)) from error

    async def _load(self, load: Callable[[ToolContext], Awaitable[T]]) -> T:
        """Load a resource. Raises MCPError with the same text as a tool."""
        try:
            async with self._app.api() as api:
                return await load(ToolContext(api, self._app.harness, _ignore_progress))
        except Refused as refused:
            message = format_refusal(refused)
            raise MCPError(code=types.INVALID_PARAMS, message=message) from refused
        except Failed as failed:
            message = format_failure(failed)
            raise MCPError(code=types.INTERNAL_ERROR, message=message) from failed

    async def serve(self, wire: Any) -> None:
        """Serve a client on a wire until it leaves."""
        # The SDK expects files, but uses only what the wire has.
        async with stdio_server(wire, wire) as (read_stream, write_stream):
            server = self._lowlevel_server
            await server.run(read_stream, write_stream, server.create_initialization_options())


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
    wire = StdioWire({tool.__name__ for tool in SLOW_TOOLS})
    try:
        await WarpboardServer(context).serve(wire)
    except BaseExceptionGroup as group:
        _check_gone(group)
    return OK


def _error_result(error: Refused | Failed) -> types.CallToolResult:
    text = format_refusal(error) if isinstance(error, Refused) else format_failure(error)
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


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


def argument_refusal(tool: str, schema: Mapping[str, Any], error: ValidationError) -> Refused:
    """Return a refusal that names the first wrong argument, and what it may be."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    if field in properties:
        fix = f"{field}: {_expected_text(properties[field])}"
    else:
        required = schema.get("required", [])
        names = ", ".join(f"{name} (required)" if name in required else name for name in properties)
        fix = f"{tool} takes {names or 'nothing'}"
    return Refused("bad_argument", f"`{field}`: {first['msg']}; {fix}", field or None)


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
