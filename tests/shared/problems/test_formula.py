"""Formulas of authors: their values, and that nothing but arithmetic is possible."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.problems.roofline import VALUE_MAX, FormulaError, evaluate_formula

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
    ("kind * 2", "names 'kind', which is not a number"),
    ("no", "names 'no', which is not a number"),
    ("sum(deep)", "names 'deep', which is not a number"),
    ("m", "uses 'm' as a number: it is a list"),
    ("m * 2", "uses 'm' as a number"),
    ("size / (size - 7)", "divides by 0"),
    ("0 ** -1", "divides by 0"),
    ("eps - 1", "is -0.5: it must be at least 0"),
    ("9**9**9", "exceeds 1e+24"),
    ("1e999", "exceeds 1e+24"),
    ("size ** 30 - size ** 30", "exceeds 1e+24"),
    ("(-1) ** 0.5", "does not give a number"),
    ("size.real", "has 'size.real', which is not one of"),
    ("m[0]", "has 'm[0]', which is not one of"),
    ("size % 2", "has 'size % 2', which is not one of"),
    ("True", "has 'True', which is not one of"),
    ("'a' * 9", "has \"'a'\", which is not one of"),
    ("[x for x in m]", "which is not one of"),
    ("lambda: 1", "which is not one of"),
    ("max(m, key=len)", "which is not one of"),
    ("max(*m)", "which is not one of"),
    ("m.append(1)", "which is not one of"),
    ("__import__('os')", "calls '__import__': there are min, max, ceil, len, sum"),
    ("eval('1')", "calls 'eval'"),
    ("min()", "calls min() with arguments it does not take"),
    ("min(m, 3)", "calls min() with arguments it does not take"),
    ("len(size)", "calls len() with arguments it does not take"),
    ("size +", "is not arithmetic"),
    ("", "is not arithmetic"),
    ("size; size", "is not arithmetic"),
    ("\0", "is not arithmetic"),
    ("(" * 199, "is not arithmetic"),
    ("1" * 201, "has 201 characters: at most 200"),
]
PARTS = [*"0123456789.+-*/()[], \n\0e_", "size", "m", "max(", "len(", "**", "sum(", "x.y"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)


@pytest.mark.parametrize(("text", "found"), RIGHT)
def test_arithmetic_comes_to_what_it_should(text: str, found: float) -> None:
    assert evaluate_formula(text, ARGS) == pytest.approx(found)


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_no_arithmetic_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(FormulaError) as bad:
        evaluate_formula(text, ARGS)
    assert said in str(bad.value)


@pytest.mark.parametrize("text", ["9**9**9**9", "9**99999*" * 22 + "9", "-" * 199 + "1"])
def test_nothing_grows_large(text: str) -> None:
    began = time.process_time()
    with pytest.raises(FormulaError):
        evaluate_formula(text, {})
    assert time.process_time() - began < 1


@given(text=TEXTS | st.text(max_size=60))
def test_any_text_is_a_number_in_bounds_or_refused(text: str) -> None:
    with suppress(FormulaError):
        assert 0 <= evaluate_formula(text, ARGS) <= VALUE_MAX
