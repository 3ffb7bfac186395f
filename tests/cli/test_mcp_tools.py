"""What the tools promise before anybody is asked: their schemas, their bounds, their words."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Failed, Refused
from tests.cli.asked import warpboard
from warpboard.domain.units import harmless
from warpboard.mcp import bounds
from warpboard.mcp.schemas import arguments, schema
from warpboard.mcp.tools import Tool, tools
from warpboard.mcp.wording import failure, refusal
from warpboard.service.ports import Unavailable

TOOLS = tools()
LISTING_BYTES_MAX = 32_000


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_a_tool_says_what_it_does_and_what_it_takes_and_answers(tool: Tool) -> None:
    assert re.match(r"[A-Z].{20,300}\.$", tool.about, re.DOTALL)
    for kind in (tool.ask, tool.tell):
        said = schema(kind)
        assert said["type"] == "object"
        assert "$ref" not in said
    assert schema(tool.ask)["additionalProperties"] is False
    for name, about in schema(tool.ask)["properties"].items():
        assert about.get("description"), name


def test_all_tools_together_are_little_to_read() -> None:
    said = [[one.about, schema(one.ask), schema(one.tell)] for one in TOOLS.values()]
    assert len(msgspec.json.encode(said)) < LISTING_BYTES_MAX


@pytest.mark.parametrize(
    ("tool", "said", "told"),
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
        ("follow", {"number": 0}, (">= 1", "field number")),
        ("follow", {"number": "twelve"}, ("field number",)),
        ("follow", {"number": 1, "wait_s": 300}, ("<= 50", "at most 50 seconds")),
        ("read_log", {"number": 1, "chars_max": 10**9}, ("field chars_max",)),
        ("list_problems", {"all": True}, ("list_problems takes nothing",)),
    ],
)
def test_a_wrong_argument_is_told_with_its_field_and_the_mend(
    tool: str, said: dict[str, Any], told: tuple[str, ...]
) -> None:
    with pytest.raises(Refused) as refused:
        arguments(tool, TOOLS[tool].ask, said)
    text = refusal(refused.value)
    for one in told:
        assert one in text, text


def test_numbers_may_come_as_text() -> None:
    asked = arguments("follow", TOOLS["follow"].ask, {"number": "12", "wait_s": "1.5"})
    assert msgspec.to_builtins(asked) == {"number": 12, "after": 0, "wait_s": 1.5}


@given(st.text(), st.integers(1, 50))
def test_what_is_cut_is_said_and_no_answer_is_too_long(text: str, chars_max: int) -> None:
    for keep in (bounds.head, bounds.tail):
        shown, cut = keep(text, chars_max)
        assert len(shown) <= chars_max
        assert bool(cut) == (len(harmless(text)) > chars_max)
    assert len(bounds.brief(text * 100)) <= bounds.MESSAGE_CHARS_MAX + 1


@pytest.mark.parametrize("code", ["missing_credential", "invalid_credential"])
def test_who_is_not_logged_in_is_told_how(code: str) -> None:
    assert "warpboard login" in refusal(Refused(code, "no"))


def test_a_wait_that_the_platform_asks_for_is_passed_on() -> None:
    said = refusal(Refused("quota_exceeded", "5 of 5 are used", None, 40.0))
    assert said.endswith("ask again in 40 s")
    assert "30 s" in failure(Unavailable("too many", 30.0))
    assert "nothing is wrong with your call" in failure(Failed("it broke"))


def test_the_command_prints_what_a_client_is_told() -> None:
    result = warpboard("mcp", "--json", "--url", "http://h:1", "--as", "ada")
    assert result.exit_code == 0
    args = ["mcp", "--url", "http://h:1", "--as", "ada"]
    server = {"command": "warpboard", "args": args}
    assert msgspec.json.decode(result.stdout) == {"mcpServers": {"warpboard": server}}
