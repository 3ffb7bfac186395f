"""A reference is parsed before it ever runs: what it lacks is reported by the compiler."""

import pytest

from shared.errors import Refused
from tests.shared.problems.examples import TASK, compile_example, replace_in_task

REST = b"def ref_kernel(data): ...\ndef check_implementation(data, output): ...\n"
GENERATE = b"def generate_input(size, seed): ...\n"
FORMS = [
    GENERATE + REST,
    b"from made import generate_input\n" + REST,
    b"from made import *\n",
    b"if True:\n    " + GENERATE + b"else:\n    generate_input = None\n" + REST,
    b"import m\ngenerate_input = m.make()\n" + REST,
    b"@cached\ndef generate_input(a): ...\n" + REST,
    b"def generate_input(size, **more): ...\n" + REST,
    b"try:\n    import fast as generate_input\nexcept ImportError:\n    pass\n" + REST,
]


@pytest.mark.parametrize("text", FORMS)
def test_functions_are_found_however_they_are_defined(text: bytes) -> None:
    assert compile_example(reference_py=text).slug == "doubling"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GENERATE, "does not define ref_kernel, check_implementation"),
        (b"def generate_input(n, seed): ...\n" + REST, "line 10: this case has no 'n'"),
        (b"def generate_input(size): ...\n" + REST, "has 'seed', which it does not take"),
        (b"def generate_input(\n", r"reference\.py, line 1: not Python"),
        (b"x = " + b"-" * 100_000 + b"1\n", "use fewer levels"),
        (b"if a:\n    b\n" + b"elif a:\n    b\n" * 1500, "use fewer levels"),
        (b"\0", "null bytes"),
        (b"#" * 300_000, "code has at most 262144"),
    ],
)
def test_what_a_reference_lacks_is_said(text: bytes, words: str) -> None:
    with pytest.raises(Refused, match=words):
        compile_example(reference_py=text)


def test_ranks_are_given_their_number() -> None:
    task = replace_in_task("size: 64, seed: 7", "size: 64, seed: 7, world_size: 2").replace(
        "size: 1024, seed: 3", "size: 1024, seed: 3, world_size: 2"
    )
    task = task.replace("lang: py", "multi_gpu: true\nlang: py")
    head = b"def generate_input(size, seed, world_size, rank): ...\n"
    assert compile_example(task, reference_py=head + REST).requires.count == 2
    with pytest.raises(Refused, match="has 'rank', which it does not take"):
        compile_example(task, reference_py=head.replace(b", rank", b"") + REST)
    assert TASK.count("rank") == 0
