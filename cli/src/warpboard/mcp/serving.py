"""The server itself: the protocol by its official SDK, every tool behind it."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, cast

import anyio
import msgspec
from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from shared.errors import Failed, Refused
from warpboard.domain.outcome import OK
from warpboard.mcp import pages
from warpboard.mcp.hands import PROGRESS, Hands
from warpboard.mcp.schemas import arguments, schema
from warpboard.mcp.tools import Tool, tools
from warpboard.mcp.wire import Lines, Requests, Writer, claimed
from warpboard.mcp.wording import failure, refusal
from warpboard.service.ports import Api, Disk, Harness

NAME, VERSION = "warpboard", "1"
ABOUT = (
    "Write GPU kernels that are right and fast. Begin with list_problems and read_task; then "
    "submit, follow and read_result until the verdict is passed, benchmark, compare, and submit "
    "with mode ranked what is better. The prompt optimise tells the loop."
)
# What the SDK's streams say to each other once a side of the connection is not there any more.
GONE = (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError)
Context = ServerRequestContext[Any, Any]
Page = types.PaginatedRequestParams | None


@dataclass(frozen=True)
class Answering:
    """What the protocol asks for, answered; the platform and who asks it are found anew each time.

    So a person who logs in, or starts the platform, need not start this again.
    """

    opening: Callable[[], AbstractAsyncContextManager[Api]]
    disk: Disk
    harness: Harness
    tools: dict[str, Tool]

    async def list_tools(self, _: Context, __: Page) -> types.ListToolsResult:
        """Every tool."""
        return types.ListToolsResult(tools=[_tool(one) for one in self.tools.values()])

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """A tool's answer, or what it could not do and why."""
        tool = self.tools.get(params.name)
        if tool is None:
            what = f"there is no tool {params.name!r}: {', '.join(self.tools)}"
            raise MCPError(code=types.INVALID_PARAMS, message=what)
        try:
            asked = arguments(tool.name, tool.ask, params.arguments or {})
            async with self.opening() as api:
                hands = Hands(api, self.disk, self.harness, _progress(context))
                found = await tool.run(hands, asked)
        except (Refused, Failed) as end:
            said = types.TextContent(text=_said(end))
            return types.CallToolResult(content=[said], is_error=True)
        text = msgspec.json.encode(found)
        return types.CallToolResult(
            content=[types.TextContent(text=text.decode())],
            structured_content=msgspec.json.decode(text),
        )

    async def list_resources(self, _: Context, __: Page) -> types.ListResourcesResult:
        """The task and the starter of every problem."""
        found = await self._page(pages.listed)
        return types.ListResourcesResult(resources=[_resource(*one) for one in found])

    async def list_templates(self, _: Context, __: Page) -> types.ListResourceTemplatesResult:
        """How the pages of any problem are called."""
        templates = [
            types.ResourceTemplate(uri_template=uri, name=name, description=about, mime_type=kind)
            for uri, name, about, kind in pages.TEMPLATES
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(
        self, _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """A page of a problem."""
        uri = str(params.uri)
        text, kind = await self._page(lambda hands: pages.read(hands, uri))
        content = types.TextResourceContents(uri=uri, text=text, mime_type=kind)
        return types.ReadResourceResult(contents=[content])

    async def list_prompts(self, _: Context, __: Page) -> types.ListPromptsResult:
        """The one prompt."""
        said = [
            types.PromptArgument(name=name, description=about, required=is_required)
            for name, about, is_required in pages.ARGUMENTS
        ]
        prompt = types.Prompt(name=pages.PROMPT, description=pages.ABOUT, arguments=said)
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(
        self, _: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """The loop, for a problem."""
        try:
            text = pages.prompt(self.disk, params.name, params.arguments or {})
        except Refused as end:
            raise MCPError(code=types.INVALID_PARAMS, message=_said(end)) from end
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(description=pages.ABOUT, messages=[message])

    async def _page(self, made: Callable[[Hands], Any]) -> Any:
        """What a page's maker finds. Errors: MCPError, in the same words as a tool's."""
        try:
            async with self.opening() as api:
                return await made(Hands(api, self.disk, self.harness, _nobody))
        except Refused as end:
            raise MCPError(code=types.INVALID_PARAMS, message=_said(end)) from end
        except Failed as end:
            raise MCPError(code=types.INTERNAL_ERROR, message=_said(end)) from end


def _said(end: Refused | Failed) -> str:
    return refusal(end) if isinstance(end, Refused) else failure(end)


def _tool(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.about,
        input_schema=schema(tool.ask),
        output_schema=schema(tool.tell),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.is_reading,
            destructive_hint=False,
            open_world_hint=False,
        ),
    )


def _resource(uri: str, name: str, about: str, kind: str) -> types.Resource:
    return types.Resource(uri=uri, name=name, description=about, mime_type=kind)


def _progress(context: Context) -> PROGRESS:
    """Tells the caller; a no-op for one who did not ask for progress."""

    async def told(done: float, total: float, sentence: str) -> None:
        await context.session.report_progress(done, total, sentence)

    return told


async def _nobody(done: float, total: float, sentence: str) -> None:
    """Nobody waits for a word."""


def _check_gone(group: BaseExceptionGroup[BaseException]) -> None:
    """A client that reads no more has gone, like one that writes no more; a signal ends us too.

    Errors: CancelledError; whatever else is in the group.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    _, others = group.split(GONE)
    if others is not None:
        raise others


async def serve(
    opening: Callable[[], AbstractAsyncContextManager[Api]], disk: Disk, harness: Harness
) -> int:
    """Serve one client on stdin and stdout until it goes; the exit code. Errors: Refused."""
    answering = Answering(opening, disk, harness, tools())
    server = Server(
        NAME,
        version=VERSION,
        title="Warpboard",
        instructions=ABOUT,
        on_list_tools=answering.list_tools,
        on_call_tool=answering.call_tool,
        on_list_resources=answering.list_resources,
        on_list_resource_templates=answering.list_templates,
        on_read_resource=answering.read_resource,
        on_list_prompts=answering.list_prompts,
        on_get_prompt=answering.get_prompt,
    )
    lines_in, lines_out = claimed()
    requests = Requests({one.name for one in answering.tools.values() if one.is_slow})
    lines, writer = Lines(lines_in, requests), Writer(lines_out, requests)
    try:
        # The SDK wants files, of which it uses nothing else than these two have.
        async with stdio_server(cast("Any", lines), cast("Any", writer)) as (come, go):
            await server.run(come, go, server.create_initialization_options())
    except BaseExceptionGroup as group:
        _check_gone(group)
    return OK
