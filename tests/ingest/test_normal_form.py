"""Which sources are equal: those that differ in comments, white space and local names."""

import time

import pytest

from ingest.submissions.normal_form import NORMAL_BYTES_MAX, normal_digest
from shared.event_log import RecordedEvent
from shared.events import SubmissionReceived
from tests.ingest.taking_in import open_intake

KERNEL = """import torch
SCALE = 2
def custom_kernel(data):
    first, out = data
    for i in range(SCALE):
        out[i] = sum(x * i for x in first)
    return out
"""
EQUAL = [
    KERNEL,
    KERNEL + "# once more\n",
    KERNEL.replace("    ", "\t").replace("\n", "\n\n"),
    KERNEL.replace("first", "a").replace("out", "b"),
    KERNEL.replace("x ", "y ").replace("in range", "in  range"),
    KERNEL.replace("data):\n", 'data):\n    """Add."""\n'),
]
DIFFERENT = [
    KERNEL.replace("SCALE", "FACTOR"),
    KERNEL.replace("range", "reversed"),
    KERNEL.replace("SCALE = 2", "SCALE = 3"),
    KERNEL.replace("return out", "return first"),
    KERNEL.replace("x * i for x", "SCALE * i for x"),
    KERNEL.replace("import torch", "import torch as t"),
]
# Pairs of programs that do different things and are alike but for names.
PAIRS = [
    ("def f():\n x = 1\n def g():\n  return x", "def f():\n x = 1\n def g():\n  return y"),
    ("def f(x):\n return [x for x in x]", "def f(y):\n return [x for x in x]"),
    ("def f(a, b):\n return a\nf(a=1, b=2)", "def f(b, a):\n return b\nf(a=1, b=2)"),
    ("def f(A, B):\n return A\nc = {'A': 1}", "def f(B, A):\n return B\nc = {'A': 1}"),
    ("def f():\n x = 1\n global x\n return x", "def f():\n x = 1\n return x"),
    ("def f(x):\n def g():\n  nonlocal x\n  x = 1\n return x",
     "def f(x):\n def g():\n  x = 1\n return x"),
    ("def f(x):\n class A:\n  x = 2\n  y = x", "def f(z):\n class A:\n  x = 2\n  y = z"),
    ("def f(x):\n y = 1\n return locals()", "def f(x):\n z = 1\n return locals()"),
    ("def f(x):\n import y\n return y", "def f(y):\n import y\n return y"),
    ("def f(x=x):\n return x", "def f(x=y):\n return x"),
]  # fmt: skip
EQUAL_CUDA = [
    'int f(int a) { return a+ 1; } // one\n#define A 1\nconst char *s = "a  //b";',
    'int f(int a){return a + 1;}\n\n#define A 1 /* two */\nconst char*s="a  //b";',
]
PAIRS_CUDA = [
    ("x = a++ + b;", "x = a + ++b;"),
    ("#define F(x) x", "#define F (x) x"),
    ('s = "a  b";', 's = "a b";'),
    ("//! WARPBOARD compiler: nvrtc\nint x;", "int x;"),
    ("#define A 1\nint x;", "#define A 1 int x;"),
    ("int x; // /*\nint y; /* */", "int x; // /* int y; */"),
    ("return x;", "returnx;"),
]
HOSTILE = [
    "(" * 30_000,
    "-" * 60_000 + "1",
    "x" + ".a" * 30_000,
    "x=" * 30_000 + "1",
    "lambda:" * 9_000 + "1",
    "a\n" * 30_000,
    "def f():\n" + "".join(f" a{i}=1\n" for i in range(3000)) + " lambda:0\n" * 3000,
    "/*" * 32_000,
    '"\\' * 32_000,
    "'" * 64_000,
    "\\" * 64_000,
    "#" * 64_000,
    "#\n" * 32_000,
    "\ud800",
    "x = 1\0",
]


def test_sources_that_differ_in_comments_space_and_local_names_are_equal() -> None:
    digests = {normal_digest({"k.py": text}) for text in EQUAL}
    assert len(digests) == 1
    assert digests != {""}
    assert not digests & {normal_digest({"k.py": text}) for text in DIFFERENT}


@pytest.mark.parametrize("pair", PAIRS)
def test_programs_that_do_different_things_are_not_equal(pair: tuple[str, str]) -> None:
    first, second = (normal_digest({"k.py": text}) for text in pair)
    assert first != second


def test_cuda_sources_are_equal_without_comments_and_space() -> None:
    first, second = (normal_digest({"k.cu": text}) for text in EQUAL_CUDA)
    assert first == second != ""
    assert first != normal_digest({"k.cpp": EQUAL_CUDA[0]})


@pytest.mark.parametrize("pair", PAIRS_CUDA)
def test_cuda_programs_that_do_different_things_are_not_equal(pair: tuple[str, str]) -> None:
    first, second = (normal_digest({"k.cu": text}) for text in pair)
    assert first != second


@pytest.mark.parametrize("name", ["k.py", "k.cu"])
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:8]))
def test_no_source_takes_long_or_fails(text: str, name: str) -> None:
    started = time.process_time()
    normal_digest({name: text})
    assert time.process_time() - started < 5


def test_a_source_that_is_too_large_has_no_normal_form() -> None:
    assert normal_digest({"k.py": "x = 1\n" * NORMAL_BYTES_MAX}) == ""


async def test_a_submission_is_received_with_its_normal_form() -> None:
    def received(event: RecordedEvent) -> bool:
        return isinstance(event.fact, SubmissionReceived)

    async with open_intake() as intake:
        await intake.submit("k")
        *_, event = filter(received, intake.log.since(0))
        assert isinstance(event.fact, SubmissionReceived)
        assert len(event.fact.normal_digest) == 64
        assert event.fact.pooling_digest == event.fact.normal_digest != event.fact.source.digest


def test_the_form_of_several_files_depends_on_all_of_them_and_their_names() -> None:
    files = {"k.py": "import h\n", "h.py": "def f(a):\n    b = a\n    return b\n", "x.h": "int x;"}
    same = {
        "k.py": "import h  # ours\n",
        "x.h": "int  x; // one",
        "h.py": "def f(p): q = p; return q",
    }
    assert normal_digest(files) == normal_digest(same) != ""
    for name, text in (("k.py", "import h, z"), ("h.py", "def f(a): return a"), ("x.h", "int y;")):
        assert normal_digest(files | {name: text}) != normal_digest(files)
    renamed = {("g.py" if name == "h.py" else name): text for name, text in files.items()}
    assert normal_digest(renamed) != normal_digest(files)
    assert normal_digest({"k.py": files["k.py"]}) != normal_digest(files)
    assert normal_digest(files | {"h.py": "def f("}) == ""
    assert normal_digest(files | {"t.txt": "a  b"}) != normal_digest(files | {"t.txt": "a b"})


@pytest.mark.parametrize("caller", ["import h\nh.f(a=1, b=2)\n", "import h\nh.f(**{'a': 1})\n"])
def test_a_parameter_that_another_file_names_keeps_its_name(caller: str) -> None:
    first = {"k.py": caller, "h.py": "def f(a=0, b=0): return a - b\n"}
    swapped = {"k.py": caller, "h.py": "def f(b=0, a=0): return b - a\n"}
    assert normal_digest(first) != normal_digest(swapped)
