"""Arithmetic that an author writes: what it comes to, and that nothing else is done with it."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.problems.formula import VALUE_MAX, BadFormula, value

ARGS = {
    "size": 7,
    "m": [1, 2, 3],
    "eps": 0.5,
    "on": True,
    "kind": "flat",
    "deep": [[1]],
    "no": None,
}
RIGHT = [
    ("12", 12.0),
    ("1e-05 * 100000", 1.0),
    ("3*2*size*size", 294.0),
    ("size // 2 + size / 2", 6.5),
    ("2 ** -1 + -(-1)", 1.5),
    ("max(size, 9) - min(size, 9, eps)", 8.5),
    ("len(m) * sum(m) + max(m)", 21.0),
    ("ceil(size / 4) * on", 2.0),
    (" size\n", 7.0),
]
WRONG = [
    ("sise", "names 'sise', which the case does not have: did you mean 'size'?"),
    ("width", "the arguments are: size, m, eps, on, kind, deep, no"),
    ("kind * 2", "names 'kind', which is no number"),
    ("no", "names 'no', which is no number"),
    ("sum(deep)", "names 'deep', which is no number"),
    ("m", "takes 'm' for a number: it is a list"),
    ("m * 2", "takes 'm' for a number"),
    ("size / (size - 7)", "divides by 0"),
    ("0 ** -1", "divides by 0"),
    ("eps - 1", "comes to -0.5: write what is at least 0"),
    ("9**9**9", "comes to more than 1e+24"),
    ("1e999", "comes to more than 1e+24"),
    ("size ** 30 - size ** 30", "comes to more than 1e+24"),
    ("(-1) ** 0.5", "no number"),
    ("size.real", "has 'size.real', which is none of"),
    ("m[0]", "has 'm[0]', which is none of"),
    ("size % 2", "has 'size % 2', which is none of"),
    ("True", "has 'True', which is none of"),
    ("'a' * 9", "has \"'a'\", which is none of"),
    ("[x for x in m]", "which is none of"),
    ("lambda: 1", "which is none of"),
    ("max(m, key=len)", "which is none of"),
    ("max(*m)", "which is none of"),
    ("m.append(1)", "which is none of"),
    ("__import__('os')", "calls '__import__': there are min, max, ceil, len, sum"),
    ("eval('1')", "calls 'eval'"),
    ("min()", "gives min() what it does not take"),
    ("min(m, 3)", "gives min() what it does not take"),
    ("len(size)", "gives len() what it does not take"),
    ("size +", "is no arithmetic"),
    ("", "is no arithmetic"),
    ("size; size", "is no arithmetic"),
    ("\0", "is no arithmetic"),
    ("(" * 199, "is no arithmetic"),
    ("1" * 201, "has 201 characters: at most 200"),
]
PARTS = [*"0123456789.+-*/()[], \n\0e_", "size", "m", "max(", "len(", "**", "sum(", "x.y"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)


@pytest.mark.parametrize(("text", "found"), RIGHT)
def test_arithmetic_comes_to_what_it_should(text: str, found: float) -> None:
    assert value(text, ARGS) == pytest.approx(found)


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_no_arithmetic_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(BadFormula) as bad:
        value(text, ARGS)
    assert said in str(bad.value)


@pytest.mark.parametrize("text", ["9**9**9**9", "9**99999*" * 22 + "9", "-" * 199 + "1"])
def test_nothing_grows_large(text: str) -> None:
    began = time.process_time()
    with pytest.raises(BadFormula):
        value(text, {})
    assert time.process_time() - began < 1


@given(text=TEXTS | st.text(max_size=60))
def test_any_text_is_a_number_in_bounds_or_refused(text: str) -> None:
    with suppress(BadFormula):
        assert 0 <= value(text, ARGS) <= VALUE_MAX
