"""What the advisory screen finds: in cheats, in honest kernels, and in hostile sources."""

import re
from collections import Counter
from pathlib import Path

import pytest

from ranker.domain.screen_rules import RULES, RULES_BY_ID
from ranker.domain.source_screen import LINES_MAX, Finding, quote_line, screen_source
from ranker.retrieval.screen_process import UNREADABLE, ScreenProcess
from shared.api.labels import SEVERITIES

HERE = Path(__file__).parent
CHEATS = HERE.parent / "cheats" / "submissions"
PROBLEMS = HERE.parents[1] / "problems"
LANGUAGES = (".py", ".cu", ".cpp", ".hip")
# Cheats in which a reader who does not know the problem sees nothing, and why.
INVISIBLE = {
    "forbidden_elsewhere": "a library's product is a matter of the shortcut policy",
    "forbidden_substitute": "a library's convolution is a matter of the shortcut policy",
    "gpu_wrong": "it is only wrong",
    "impossible_time": "it is honest; its problem has an impossible floor",
    "narrow_words": "it is only wrong: the problem's integers have more bits",
    "one_element_wrong": "it is only wrong",
    "unwritten_zeros": "it is only wrong if memory was not zero",
    "wrong": "it is only wrong",
    "shapes_in_answers": "it is only wrong, and reads no more than the sizes of its inputs",
    "shapes_raised": "it only raises an error, and reads no more than the sizes of its inputs",
}
# Of honest kernels, so many may have a label at all, and one that the list shows by default.
LABELLED_SHARE_MAX, SHOWN_SHARE_MAX = 0.15, 0.02


def rules_of(path: Path) -> set[str]:
    findings = screen_source(path.read_bytes(), is_python=path.suffix == ".py")
    return {finding.rule for finding in findings}


def python(text: str) -> list[tuple[str, int]]:
    return [(it.rule, it.line) for it in screen_source(text.encode(), is_python=True)]


def native(text: str) -> list[tuple[str, int]]:
    return [(it.rule, it.line) for it in screen_source(text.encode(), is_python=False)]


@pytest.mark.feature("A6")
@pytest.mark.parametrize("path", sorted(CHEATS.glob("*.py")), ids=lambda path: path.stem)
def test_every_cheat_that_its_source_shows_has_a_label(path: Path) -> None:
    assert bool(rules_of(path)) != (path.stem in INVISIBLE)


def test_few_honest_kernels_have_a_label(capsys: pytest.CaptureFixture[str]) -> None:
    folders = PROBLEMS.glob("*/solutions/correct")
    paths = [it for folder in folders for it in folder.iterdir() if it.suffix in LANGUAGES]
    assert len(paths) > 100
    found = {path: rules_of(path) for path in paths}
    counts = Counter(rule for rules in found.values() for rule in rules)
    shown = [
        path
        for path, rules in found.items()
        if any(RULES_BY_ID[rule].severity != "low" for rule in rules)
    ]
    labelled = sum(map(bool, found.values()))
    with capsys.disabled():
        print(  # noqa: T201  (this test measures)
            f"\nof {len(paths)} correct solutions, {labelled} ({labelled / len(paths):.1%}) have a "
            f"label, {len(shown)} ({len(shown) / len(paths):.1%}) one above low: {dict(counts)}"
        )
    assert labelled / len(paths) <= LABELLED_SHARE_MAX
    assert len(shown) / len(paths) <= SHOWN_SHARE_MAX, shown


def test_findings_name_the_line_and_come_in_order_of_severity() -> None:
    text = "import torch, time\nx = {}\ndef custom_kernel(data):\n"
    text += "    x[1] = data.bfloat16()\n" * 5 + "    time.sleep(1)\n    torch.equal = None\n"
    findings = python(text)
    assert findings == [
        ("library_patched", 10),
        ("sleep_called", 9),
        *[("precision_lowered", line) for line in (4, 5, 6)],
        *[("state_kept", line) for line in (4, 5, 6)],
    ]
    severities = [SEVERITIES.index(RULES_BY_ID[rule].severity) for rule, _ in findings]
    assert severities == sorted(severities)
    assert max(Counter(rule for rule, _ in findings).values()) == LINES_MAX
    assert quote_line(text.encode(), 9) == "time.sleep(1)"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("from time import perf_counter as p\np()", "clock_read"),
        ("import torch as t\ne = t.cuda\ne.Event = None", "timer_patched"),
        ("import time\nsetattr(time, 'time', None)", "timer_patched"),
        ("import sys\nsys.modules['reference'] = None", "library_patched"),
        ("import torch\ntorch.Tensor.__eq__ = None", "library_patched"),
        ("import torch\ngetattr(torch, 'mat' + 'mul')", "code_hidden"),
        ("x = 'QUJD' * 3\neval(x)", "code_hidden"),
        (f"x = '{'QUJD' * 50}'", "code_hidden"),
        ("import reference", "grader_sought"),
        ("from reference import ref_kernel", "grader_sought"),
        ("open('/proc/self/maps')", "memory_searched"),
        ("def f(x):\n    if x.data_ptr() in C:\n        pass", "answer_kept"),
        ("def f(x):\n    C.get((x.data_ptr(), 1))", "answer_kept"),
        ("def f(x):\n    C[id(x)] = 1", "answer_kept"),
        ("import torch\nB = torch.zeros(1)\ndef custom_kernel(d):\n    d.copy_(B)", "answer_kept"),
        ("import os\nif os.environ['MODE'] == 'x':\n    pass", "environment_read"),
        ("def run(x, out):\n    return out.fill_(1)", "answer_constant"),
        (
            "import torch\ndef f(a):\n    try:\n        g(a)\n    except E:\n        a @ a",
            "fallback_used",
        ),
        ("N = 0\ndef f():\n    global N\n    N += 1", "call_counted"),
        ("def f():\n    while 1:\n        pass", "loop_endless"),
        ("def f(:", "source_unusual"),
        ("# coding: utf-7\nx = 1", "source_unusual"),
        ("x = 'a\u202eb'", "source_unusual"),
        ("S = '''__global__ void k() {\n clock64();\n}'''", "clock_read"),
    ],
)
def test_a_rule_finds_its_use_whatever_it_is_called(text: str, rule: str) -> None:
    assert rule in {name for name, _ in python(text)}


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nf = torch.compile(g)",
        "import re\nR = re.compile('a')",
        "def forward(self, x):\n    return self.model.eval()(x)",
        "def f(x):\n    assert x.data_ptr() % 16 == 0",
        "import os\nos.environ['TORCH_CUDA_ARCH_LIST'] = '9.0a'",
        "import torch\ntorch.backends.cudnn.benchmark = True",
        "try:\n    import triton\nexcept ImportError:\n    triton = None",
        "from task import input_t, output_t\nfrom utils import make_match_reference",
        "import triton\n@triton.jit\ndef k(p):\n    while True:\n        pass",
        "def f():\n    while True:\n        if g():\n            break",
        "# time.sleep(1)\nx = 'a text about time.sleep and os.fork'",
    ],
)
def test_usual_code_has_no_finding(text: str) -> None:
    assert python(text) == []


def test_the_text_of_cuda_is_read_without_comments() -> None:
    assert native("// clock64()\n/* fork(); */\nint x;") == []
    assert native("int f() {\n  return fork() + clock64();\n}") == [
        ("process_started", 2),
        ("clock_read", 2),
    ]
    assert native("std::unordered_map<const float*, int> kept;") == [("answer_kept", 1)]
    assert native("*(volatile int*)8 = 1;") == [("memory_searched", 1)]
    assert native("cudaEventRecord(a); cudaDeviceSynchronize();") == []


def test_rules_are_told_apart_and_explained() -> None:
    assert len(RULES_BY_ID) == len(RULES)
    order = [SEVERITIES.index(rule.severity) for rule in RULES]
    assert order == sorted(order)
    for rule in RULES:
        assert re.fullmatch(r"[a-z]+_[a-z]+", rule.id)
        assert rule.title[0].islower()
        assert not rule.title.endswith(".")
        assert rule.why.endswith(".")


HOSTILE = {
    "brackets": b"(" * 20_000,
    "minus": b"x = " + b"-" * 50_000 + b"1",
    "sum": b"x = " + b"+".join([b"a"] * 30_000),
    "calls": b"x = a" + b"()" * 30_000,
    "digits": b"x = " + b"9" * 200_000,
    "letters": b"x = '" + b"A" * 500_000 + b"'",
    "zero": b"a\0b",
    "bytes": bytes(range(256)) * 100,
    "comment": b"/*" * 200_000,
    "elif": b"if a: pass\n" + b"elif a: pass\n" * 10_000,
    "addresses": b"x = '" + b"http://" * 70_000 + b"'",
    "lines": b'x = """' + b"\n" * 500_000 + b'"""',
    "spaces": b"*(" + b" " * 200_000,
}


async def test_a_hostile_source_neither_ends_nor_stops_the_screen() -> None:
    process = ScreenProcess()
    try:
        for source in HOSTILE.values():
            for is_python in (True, False):
                findings = await process.screen(source, is_python=is_python)
                assert len(findings) <= LINES_MAX * len(RULES)
        assert await process.screen(HOSTILE["brackets"], is_python=True) == UNREADABLE
        patch = b"import time\ntime.time = None"
        assert await process.screen(patch, is_python=True) == [Finding("timer_patched", 2)]
    finally:
        await process.close()
