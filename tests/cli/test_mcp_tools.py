"""What the tools promise before anybody is asked: their schemas, their bounds, their words."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Failed, Refused
from shared.presentation.units import escape_control_characters
from tests.cli.command_runner import run_warpboard
from warpboard.api import Unavailable
from warpboard.mcp import context, server
from warpboard.mcp.context import Tool
from warpboard.mcp.server import build_schema, format_failure, format_refusal, parse_arguments

TOOLS = {tool.name: tool for tool in server.TOOLS}
LISTING_BYTES_MAX = 32_000


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_a_tool_says_what_it_does_and_what_it_takes_and_answers(tool: Tool) -> None:
    assert re.match(r"[A-Z].{20,300}\.$", tool.about, re.DOTALL)
    for kind in (tool.request_type, tool.response_type):
        schema = build_schema(kind)
        assert schema["type"] == "object"
        assert "$ref" not in schema
    assert build_schema(tool.request_type)["additionalProperties"] is False
    for name, about in build_schema(tool.request_type)["properties"].items():
        assert about.get("description"), name


def test_all_tools_together_are_little_to_read() -> None:
    descriptions = [
        [tool.about, build_schema(tool.request_type), build_schema(tool.response_type)]
        for tool in TOOLS.values()
    ]
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
        ("follow", {"number": 0}, (">= 1", "field number")),
        ("follow", {"number": "twelve"}, ("field number",)),
        ("follow", {"number": 1, "wait_s": 300}, ("<= 50", "at most 50 seconds")),
        ("read_log", {"number": 1, "chars_max": 10**9}, ("field chars_max",)),
        ("list_problems", {"all": True}, ("list_problems takes nothing",)),
    ],
)
def test_a_wrong_argument_is_told_with_its_field_and_the_mend(
    tool: str, arguments: dict[str, Any], pieces: tuple[str, ...]
) -> None:
    with pytest.raises(Refused) as refused:
        parse_arguments(tool, TOOLS[tool].request_type, arguments)
    text = format_refusal(refused.value)
    for piece in pieces:
        assert piece in text, text


def test_numbers_may_come_as_text() -> None:
    request = parse_arguments(
        "follow", TOOLS["follow"].request_type, {"number": "12", "wait_s": "1.5"}
    )
    assert msgspec.to_builtins(request) == {"number": 12, "after": 0, "wait_s": 1.5}


@given(st.text(), st.integers(1, 50))
def test_what_is_cut_is_said_and_no_answer_is_too_long(text: str, chars_max: int) -> None:
    for truncate in (context.head, context.tail):
        excerpt, cut = truncate(text, chars_max)
        assert len(excerpt) <= chars_max
        assert bool(cut) == (len(escape_control_characters(text)) > chars_max)
    assert len(context.shorten(text * 100)) <= context.MESSAGE_CHARS_MAX + 1


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
