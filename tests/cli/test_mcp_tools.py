"""What the tools promise before anybody is asked: their schemas, their bounds, their words."""

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError

from shared.api.cases import Case
from shared.api.submissions import SubmissionReceipts
from shared.api_client import Unavailable
from shared.errors import Failed, Refused
from shared.presentation.outcome import Run
from shared.presentation.units import escape_control_characters
from shared.source_files import SOURCE_FILES_MAX
from tests.cli.command_runner import run_warpboard
from tests.cli.mcp_client import call_failing_tool, call_tool
from tests.cli.stand_in import respond_in_turn, run_stand_in
from tests.cli.test_commands import RECEIPT
from tests.support.api_examples import make_document
from warpboard.context import AppContext, PlatformTarget, create_context
from warpboard.mcp import context, server
from warpboard.mcp.server import format_failure, format_refusal

TOOLS = {tool.__name__: tool for tool in server.TOOLS}
LISTING_BYTES_MAX = 32_000


@pytest.fixture(autouse=True)
def log_settings() -> Iterator[None]:
    """The SDK configures the logging of the whole process; other tests read what services log."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def connect_agent(url: str = "http://127.0.0.1:9") -> Client:
    """Return a client of a server whose platform is away, or at this address."""
    place = PlatformTarget(url=url, participant="ada")
    return Client(server.WarpboardServer(replace(create_context(), place=place)))


async def test_each_tool_says_what_it_does_and_what_it_takes() -> None:
    async with connect_agent() as agent:
        tools = (await agent.list_tools()).tools
    assert [tool.name for tool in tools] == list(TOOLS)
    for tool in tools:
        assert re.match(r"[A-Z].{20,300}\.$", tool.description or "", re.DOTALL)
        assert tool.input_schema["type"] == "object"
        assert "$ref" not in tool.input_schema
        assert tool.input_schema["additionalProperties"] is False
        for name, about in tool.input_schema["properties"].items():
            assert about.get("description"), name


async def test_a_registration_accepts_the_terms_that_were_read() -> None:
    digest = "a" * 64
    decision = {"event": "ContestRegistered", "seq": 9}
    stale = {"detail": "the terms have changed", "code": "terms_changed"}
    arguments = {"contest": "cup", "division": "open", "declaration": {"model": "m"}}
    with run_stand_in(respond_in_turn((409, stale), (201, decision))) as standin:
        async with connect_agent(standin.url) as agent:
            message = await call_failing_tool(
                agent, "register_for_contest", **arguments, terms_digest=digest
            )
            assert "the terms have changed" in message
            result = await call_tool(
                agent, "register_for_contest", **arguments, terms_digest=digest
            )
    assert result["event"] == "ContestRegistered"
    assert [request.path for request in standin.heard] == ["/v1/contests/cup/registration"] * 2
    assert json.loads(standin.heard[1].body) == {
        "division": "open",
        "terms_digest": digest,
        "declaration": {"model": "m"},
        "code": "",
    }


async def test_a_ranked_submission_without_a_licence_tells_the_agent_to_ask_a_person() -> None:
    refusal = {"detail": "choose a licence: MIT, or `none`", "code": "licence_missing"}
    receipts = make_document(SubmissionReceipts, RECEIPT)
    arguments = {"problem": "softmax", "source": "def custom_kernel(data): ...", "mode": "ranked"}
    with run_stand_in(respond_in_turn((409, refusal), (202, receipts))) as standin:
        async with connect_agent(standin.url) as agent:
            message = await call_failing_tool(agent, "submit", **arguments)
            assert "choose a licence: MIT, or `none`" in message
            assert "show this to the person" in message
            await call_tool(agent, "submit", **arguments, licence="MIT")
    first, second = [request.body for request in standin.heard]
    assert b'name="needs_licence"' in first
    assert b'name="licence"\r\n\r\nMIT' in second


@pytest.mark.feature("N7")
async def test_files_beside_the_kernel_are_submitted_with_it() -> None:
    receipts = make_document(SubmissionReceipts, RECEIPT)
    arguments = {"problem": "softmax", "source": "import rows", "others": {"rows.py": "X = 1"}}
    with run_stand_in(respond_in_turn((202, receipts))) as standin:
        async with connect_agent(standin.url) as agent:
            await call_tool(agent, "submit", **arguments)
            too_many = {f"h{index}.py": "" for index in range(SOURCE_FILES_MAX)}
            message = await call_failing_tool(agent, "submit", **arguments | {"others": too_many})
    assert "others" in message
    [request] = standin.heard
    for name, filename, text in (
        ("file", "kernel.py", "import rows"),
        ("files", "rows.py", "X = 1"),
    ):
        head = f'name="{name}"; filename="{filename}"'.encode()
        assert request.body.partition(head)[2].partition(b"\r\n\r\n")[2].startswith(text.encode())


async def test_all_tools_together_are_little_to_read() -> None:
    async with connect_agent() as agent:
        tools = (await agent.list_tools()).tools
    descriptions = [[tool.description, tool.input_schema, tool.output_schema] for tool in tools]
    assert len(msgspec.json.encode(descriptions)) < LISTING_BYTES_MAX


@pytest.mark.parametrize(
    ("tool", "arguments", "pieces"),
    [
        ("submit", {}, ("`problem`", "field problem")),
        ("submit", {"problem": "p", "mode": "fast"}, ("benchmark, profile, ranked", "field mode")),
        (
            "submit",
            {"problem": "p", "gpu": "H200"},
            ("`gpu`", "submit takes problem (required), source", "gpus"),
        ),
        ("submit", {"problem": "p", "gpus": "H200"}, ("array", "field gpus")),
        ("submit", {"problem": "p", "gpus": [""]}, ("field gpus",)),
        ("submit", {"problem": "p" * 200}, ("field problem",)),
        ("submit", {"problem": "p", "runner": "a b"}, ("field runner",)),
        ("follow", {"number": 0}, ("greater than or equal to 1", "field number")),
        ("follow", {"number": "twelve"}, ("field number",)),
        (
            "follow",
            {"number": 1, "wait_s": 300},
            ("less than or equal to 50", "at most 50 seconds"),
        ),
        ("read_log", {"number": 1, "chars_max": 10**9}, ("field chars_max",)),
        ("list_problems", {"all": True}, ("list_problems takes cursor",)),
    ],
)
async def test_a_wrong_argument_is_named_with_what_it_may_be(
    tool: str, arguments: dict[str, Any], pieces: tuple[str, ...]
) -> None:
    async with connect_agent() as agent:
        text = await call_failing_tool(agent, tool, **arguments)
    assert "code bad_argument" in text
    for piece in pieces:
        assert piece in text, text


async def test_numbers_may_come_as_text() -> None:
    async with connect_agent() as agent:
        # The arguments are accepted: only the platform is away.
        text = await call_failing_tool(agent, "follow", number="12", wait_s="0.1")
    assert "code unavailable" in text


async def test_an_error_of_the_server_is_one_line_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AppContext, "api", None)
    async with connect_agent() as agent:
        with pytest.raises(MCPError, match="an error in this server"):
            await agent.call_tool("list_problems", {})
    assert re.fullmatch(r"warpboard: list_problems failed: TypeError.*\n", capsys.readouterr().err)


@given(st.text(), st.integers(1, 50))
def test_what_is_cut_is_said_and_no_answer_is_too_long(text: str, chars_max: int) -> None:
    for truncate in (context.head, context.tail):
        excerpt, cut = truncate(text, chars_max)
        assert len(excerpt) <= chars_max
        assert bool(cut) == (len(escape_control_characters(text)) > chars_max)


@given(st.lists(st.text(max_size=2_000), max_size=100), st.text(max_size=2_000))
def test_a_result_names_what_it_leaves_out(messages: list[str], reason: str) -> None:
    cases = [make_case(message * 3) for message in messages]
    run = Run(verdict="", reason=reason, cases=cases, log_head="left to read_log")
    document = context.ToolResult(run).document
    cut = document.get("cut", [])
    assert len(document.get("cases", [])) == min(len(cases), 64)
    assert any(note.startswith("cases:") for note in cut) == (len(cases) > 64)
    assert all(len(case.get("message", "")) <= 1_200 for case in document.get("cases", []))
    assert not {"verdict", "log_head"} & set(document)


def make_case(message: str) -> Case:
    """A public case that failed."""
    return Case(name="n=1", stage="check", verdict="wrong_answer", is_hidden=False, message=message)


@pytest.mark.parametrize("code", ["missing_credential", "invalid_credential"])
def test_who_is_not_logged_in_is_told_how(code: str) -> None:
    assert "warpboard login" in format_refusal(Refused(code, "no"))


def test_a_wait_that_the_platform_asks_for_is_passed_on() -> None:
    message = format_refusal(Refused("quota_exceeded", "5 of 5 are used", None, 40.0))
    assert message.endswith("ask again in 40 s")
    assert "30 s" in format_failure(Unavailable("too many", 30.0))
    assert "nothing is wrong with your call" in format_failure(Failed("it broke"))


def test_the_command_prints_what_a_client_is_told() -> None:
    result = run_warpboard("mcp", "--json", "--url", "http://h:1", "--as", "ada")
    assert result.exit_code == 0
    args = ["mcp", "--url", "http://h:1", "--as", "ada"]
    server = {"command": "warpboard", "args": args}
    assert msgspec.json.decode(result.stdout) == {"mcpServers": {"warpboard": server}}
