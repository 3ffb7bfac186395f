"""Seeds are unpredictable and repeatable; shapes tell inputs from outputs."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.check.inputs import derive_seed, probe_shape
from harness.check.structure import flatten
from harness.problem import Case, ProblemFault

KEY = bytes(range(32))
CASE = Case("n=4", {"n": 4, "seed": 1})


class Teacher:
    """An author with the given reference."""

    def __init__(self, generate: Callable[[int], Any], answer: Callable[[Any], Any]) -> None:
        self._generate = generate
        self._answer = answer

    def data(self, _case: Case, seed: int, rank: int = 0) -> Any:
        """What the generator makes."""
        return self._generate(seed + rank)

    def answer(self, _case: Case, data: Any) -> Any:
        """What the reference answers."""
        return self._answer(data)


@pytest.mark.feature("P16")
def test_a_seed_hangs_on_key_stage_case_and_call() -> None:
    base = ("check", "n=4", 0)
    others = [("time", "n=4", 0), ("check", "n=5", 0), ("check", "n=4", 1)]
    seeds = {derive_seed(KEY, *what, 63) for what in (base, *others)}
    assert len(seeds | {derive_seed(bytes(32), *base, 63)}) == 5
    assert derive_seed(KEY, *base, 63) == derive_seed(KEY, *base, 63)


@pytest.mark.parametrize("bits", [31, 63])
def test_a_seed_uses_all_of_its_bits_and_no_more(bits: int) -> None:
    seeds = [derive_seed(KEY, "check", "n=4", call, bits) for call in range(200)]
    assert min(seeds) >= 0
    assert 2 ** (bits - 1) < max(seeds) < 2**bits


@pytest.mark.parametrize("bits", [31, 32, 63])
def test_no_step_leads_from_known_seeds_to_the_next(bits: int) -> None:
    """A processor's generator uses 32 bits of a seed, so shown inputs reveal these by trial."""
    modulus = 1 << bits
    seeds = [derive_seed(KEY, "time", "n=4", call, 63) % modulus for call in range(100)]
    steps = [(after - before) % modulus for before, after in itertools.pairwise(seeds)]
    assert len(set(seeds)) == len(set(steps)) + 1 == len(seeds)
    affine = 0
    for first, second, third, fourth in zip(seeds, seeds[1:], seeds[2:], seeds[3:], strict=False):
        if (second - first) % 2:
            factor = (third - second) * pow(second - first, -1, modulus)
            affine += 1
            assert (third + factor * (third - second)) % modulus != fourth
    assert affine > 20


def test_an_output_buffer_is_no_input(torch: Any) -> None:
    def answer(data: Any) -> Any:
        data[1].copy_(data[0] * 2)
        return data[1]

    shape = probe_shape(Teacher(lambda _: (torch.ones(3), torch.empty(3)), answer), CASE, KEY)
    assert shape.input_indices == (0,)
    assert shape.data == ["tuple", [["tensor", 0], ["buffer", 0]]]
    assert shape.answer == ["buffer", 0]
    assert shape.seed_bits == 63


def test_a_buffer_that_is_read_is_an_input(torch: Any) -> None:
    shape = probe_shape(Teacher(lambda _: torch.rand(3), lambda data: data.mul_(2)), CASE, KEY)
    assert shape.input_indices == (0,)
    assert shape.data == ["tensor", 0]
    assert shape.answer == ["tensor", 0]


def test_a_generator_that_refuses_long_seeds_gets_short_ones(torch: Any) -> None:
    def generate(seed: int) -> Any:
        if seed >= 2**31:
            raise ProblemFault("too long")
        return torch.ones(3)

    assert probe_shape(Teacher(generate, lambda data: data + 1), CASE, KEY).seed_bits == 31


def test_a_generator_that_refuses_every_seed_is_a_fault() -> None:
    def generate(_: int) -> Any:
        raise ProblemFault("never")

    with pytest.raises(ProblemFault, match="never"):
        probe_shape(Teacher(generate, lambda data: data), CASE, KEY)


@pytest.mark.parametrize("answer", [None, 3.0, [], ["text"]])
def test_an_answer_must_be_made_of_tensors(torch: Any, answer: object) -> None:
    with pytest.raises(ProblemFault, match="ref_kernel must return"):
        probe_shape(Teacher(lambda _: torch.ones(3), lambda _: answer), CASE, KEY)


def test_data_of_another_shape_than_laid_out_is_a_fault(torch: Any) -> None:
    shape = probe_shape(Teacher(lambda _: torch.ones(3), lambda data: data + 1), CASE, KEY)
    assert len(shape.inputs_of(flatten(torch.zeros(3), "the test"))) == 1
    for other in (torch.ones(4), torch.ones(3).double(), [torch.ones(3), torch.ones(3)]):
        with pytest.raises(ProblemFault, match="other shapes"):
            shape.inputs_of(flatten(other, "the test"))


def test_the_layout_is_plain_json(torch: Any) -> None:
    shape = probe_shape(
        Teacher(lambda _: [torch.ones(2, 3), 5], lambda data: data[0] + 1), CASE, KEY
    )
    layout = json.loads(shape.layout())
    assert layout["inputs"] == [[0, 24, "float32", [2, 3], [3, 1]]]
    assert layout["data"] == ["list", [["tensor", 0], ["scalar", 0]]]


def test_tensors_must_be_made_where_the_run_is(torch: Any) -> None:
    author = Teacher(lambda _: torch.ones(3), lambda data: data * 2)
    with pytest.raises(ProblemFault, match=r"on cpu, this run is on cuda:0.*get_device"):
        probe_shape(author, CASE, KEY, 0, "cuda:0")
