"""Reading any bytes ends soon, with values or with one error message."""

import contextlib
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Refused
from shared.problems.compilation import compile_problem
from shared.problems.document import YAML_BYTES_MAX, read_document
from tests.shared.problems.examples import FILES, TASK

FRAGMENTS = st.sampled_from(
    (
        *("&a ", "*a", "<<: ", "? ", "- ", ": ", "{", "}", "[", "]", "!!python/name:os ", "!"),
        *("%YAML 1.1\n", "---\n", "...\n", "|\n", ">-\n", '"\\U', '"\\x', "'", "#", "\t", "\n  "),
        *("\0", "\ufeff", "\x85", "9" * 30, "1e999", ".nan", "null", "é", "@SUBMISSION@"),
        *("tests: ", "files: ", "seed: ", "templates: ", TASK),
    )
)


def must_end_well(text: bytes, name: str) -> None:
    with contextlib.suppress(Refused):
        compile_problem("doubling", FILES | {name: text})


@given(st.binary(max_size=200), st.sampled_from(["task.yml", "warpboard.yml"]))
def test_random_bytes_are_read_or_refused(text: bytes, name: str) -> None:
    must_end_well(text, name)


@given(st.lists(FRAGMENTS, max_size=12), st.sampled_from(["task.yml", "warpboard.yml"]))
def test_any_mix_of_yaml_is_read_or_refused(parts: list[str], name: str) -> None:
    must_end_well("".join(parts).encode(), name)


@given(st.data())
def test_a_damaged_task_is_read_or_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(TASK)))
    end = data.draw(st.integers(start, min(len(TASK), start + 20)))
    middle = data.draw(st.one_of(FRAGMENTS, st.text(max_size=6)))
    damaged = (TASK[:start] + middle + TASK[end:]).encode(errors="replace")
    must_end_well(damaged, "task.yml")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"a: \xff", "is not UTF-8 at byte 3"),
        (b"a: b: c", "line 1: not YAML"),
        (b"a: [1", "not YAML"),
        (b'a: "\\UFFFFFFFF"', "not YAML"),
        (b"%YAML " + b"9" * 5000 + b".1\n---\na: 1", "not YAML"),
        (b'a: "\\uD800"', "line 1: not YAML: found invalid Unicode"),
        (b'a: "\\0"', "line 1: NUL"),
        (b"a: 1\n---\nb: 2", "line 2: a second document"),
        (b"? [a]\n: 1", "line 1: an empty key"),
        (b"a: 1\n<<: {b: 2}", "line 2: merge keys are not supported"),
        (b"a: *b", "anchors and aliases are not supported"),
        (b"[" * 5000, "nested deeper than 12"),
        (b"a: [" + b"1," * 30_000 + b"]", "more than 20000 values"),
        (b"#" * (YAML_BYTES_MAX + 1), f"at most {YAML_BYTES_MAX}"),
    ],
)
def test_what_is_no_plain_yaml_is_refused(text: bytes, sentence: str) -> None:
    with pytest.raises(Refused) as caught:
        read_document("task.yml", text)
    assert caught.value.reason.startswith("task.yml")
    assert sentence in caught.value.reason


@pytest.mark.parametrize("unit", [b"[", b"{", b"- ", b"a: ", b"- a\n", b"? ", b"'", b"&a ", b"x "])
def test_the_longest_document_is_read_in_seconds(unit: bytes) -> None:
    began = process_time()
    with contextlib.suppress(Refused):
        read_document("task.yml", unit * (YAML_BYTES_MAX // len(unit)))
    assert process_time() - began < 10


def test_aliases_cannot_grow() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)]
    with pytest.raises(Refused, match="line 1: anchors and aliases are not supported"):
        read_document("task.yml", "\n".join(lines).encode())


def test_lines_are_known_for_every_place() -> None:
    document = read_document("task.yml", b"a: 1\nb:\n  - {c: 2}\n  -\n    c: 3\n")
    assert document.value == {"a": 1, "b": [{"c": 2}, {"c": 3}]}
    assert document.lines["b", 0, "c"] == 3
    assert document.lines["b", 1, "c"] == 5
    with pytest.raises(Refused, match=r"^task\.yml, line 5: no$"):
        document.refuse(("b", 1, "c", "deeper"), "no")


def test_a_byte_order_mark_is_no_part_of_a_key() -> None:
    assert read_document("task.yml", b"\xef\xbb\xbfa: 1").value == {"a": 1}
