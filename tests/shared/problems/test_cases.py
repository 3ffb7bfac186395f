"""Cases keep their types, their order and their bounds."""

import json
from typing import Any

import pytest

from shared.errors import Refused
from tests.shared.problems.examples import compile_example, replace_in_task


def case_of(text: str) -> dict[str, Any]:
    """Return the first checked case in a version's manifest."""
    version = compile_example(replace_in_task("{size: 64, seed: 7}", "{" + text + "}"))
    case: dict[str, Any] = json.loads(version.manifest)["tests"][0]
    return case


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("False", False),
        ("true", True),
        ("1024", 1024),
        ("-9223372036854775808", -(2**63)),
        ("0x10", 16),
        ("1e-05", 1e-05),
        ("2.0", 2.0),
        ("normal", "normal"),
        ("'2'", "2"),
        ('"a_b c"', "a_b c"),
        ("[96, 128]", [96, 128]),
        ("[[1], []]", [[1], []]),
        ("null", None),
        ("~", None),
    ],
)
def test_a_value_keeps_its_type(text: str, value: object) -> None:
    parsed = case_of(f"key: {text}, seed: 1")["args"]["key"]
    assert parsed == value
    assert type(parsed) is type(value)


def test_a_name_keeps_the_order_of_the_keys() -> None:
    assert case_of("z: 1, a: [2, 3], mode: flat, on: False, seed: 7")["name"] == (
        "z=1 a=[2,3] mode=flat on=false seed=7"
    )


def test_a_name_tells_a_word_from_its_look_alike() -> None:
    assert case_of("a: 'true', b: '1', c: 'x y', d: true")["name"] == (
        'a="true" b="1" c="x y" d=true'
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("size: 9223372036854775808", "does not fit in 64 bits"),
        ("size: 99999999999999999999999999", "does not fit in 64 bits"),
        ("size: .inf", "is not finite"),
        ("size: 1e999", "is not finite"),
        ("size: [.nan]", "is not finite"),
        ("size: {a: 1}", "list, not a map"),
        ("size: [[[[[1]]]]]", "lists nested deeper than 4"),
        ("size: yes", "quote it"),
        ("size: 010", "quote it"),
        ("size: 1_000", "quote it"),
        ("size: 1:30", "quote it"),
        ("size: 2026-01-02", "quote it"),
        ("seed: -1", "'-1' is not a seed"),
        ("seed: true", "'True' is not a seed"),
        ("'not a name': 1", "'not a name' is not an argument name"),
        ("size: &a 1", "anchors and aliases are not supported"),
        ("size: !!int 1", "the tag 'tag:yaml.org,2002:int' is not supported"),
        ("size: " + "x" * 400, "the case's name has 405 characters"),
    ],
)
def test_a_value_that_no_case_may_have_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(Refused, match=r"^task\.yml, line 10: ") as caught:
        case_of(text)
    assert sentence in caught.value.reason
