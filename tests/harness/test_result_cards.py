"""What a participant reads about each kind of failure, from real runs in the harness."""

import asyncio
import re
from dataclasses import asdict
from typing import Any

import msgspec
import pytest

from discord_edge.submissions.report import report_card
from harness.entry import RunReport
from shared.api.cases import Case
from shared.api.submissions import FullSubmission
from shared.presentation.failure import Failure, describe_failure, failure_lines
from shared.presentation.outcome import Run
from tests.cli.command_runner import run_against
from tests.cli.stand_in import respond_in_turn, run_stand_in
from tests.support.api_examples import make_document
from tests.support.failing_kernels import FAILING
from tests.support.harness import Host
from warpboard.context import PlatformTarget, create_context
from warpboard.mcp.context import ToolContext
from warpboard.mcp.results import read_result

TRIES_MAX = 12
# The folders of this machine, which no participant should read.
HOST_FOLDER = re.compile(r"/(?:root|home|usr|tmp|work|opt|submission)/")
PRODUCT = """import torch


def custom_kernel(data):
    inputs, output = data
    return torch.matmul(inputs, inputs)
"""
RANKED = {
    "number": 7,
    "mode": "ranked",
    "gpu": "CPU",
    "state": "finished",
    "is_over": True,
    "outcome": "failed",
    "problem": "identity",
    "ranking": {"status": "not_ranked", "code": "check_failed", "is_eligible": False},
}
NATIVE = "void custom_kernel(const wb_tensor*, const wb_tensor*)"
CONFLICT = f"conflicting declaration of C function '{NATIVE}'"
NATIVE_LINE = "custom_kernel(const wb_tensor *data, const wb_tensor *out)"
TIMELINE = "timeline\n"


def local_run(report: RunReport) -> Run:
    """Return a report as the commands and the pages have it."""
    cases = asdict(report)["cases"]
    known = {field.name for field in msgspec.structs.fields(Case)}
    return Run(
        verdict=report.verdict or None,
        stage=report.stage,
        reason=report.reason,
        cases=[
            msgspec.convert({name: case[name] for name in case if name in known}, Case)
            for case in cases
        ],
        log_head=report.log_head,
        log_tail=report.log_tail,
    )


def failure_of(host: Host, name: str) -> Failure:
    """Run a failing kernel, and return what is shown of it.

    A late write that comes before the copy of the output is a wrong answer, and is tried again.
    """
    kernel = FAILING[name]
    reports = (host.run(kernel.source, suffix=kernel.suffix) for _ in range(TRIES_MAX))
    run = local_run(next(one for one in reports if name in one.reason or name != "late_write"))
    failure = describe_failure(run, kernel.source)
    assert failure is not None
    for text in (*failure_lines(failure), run.log_head, run.log_tail):
        assert not HOST_FOLDER.search(text), text
    return failure


@pytest.mark.feature("P14")
@pytest.mark.parametrize(
    ("name", "first", "place", "step"),
    [
        ("syntax", "SyntaxError: expected ':'", (4, 24), "Fix line 4"),
        ("import", "ModuleNotFoundError: No module named", (1, 1), "agents have no such module"),
        ("import_raises", "KeyError: 'tile'", (2, 1), "Fix line 2"),
        ("no_kernel", "submission.py defines no function custom_kernel", None, "Define the"),
        ("helper", "IndexError: index 7 is out of bounds", (5, 12), "Fix line 5"),
        ("shape", "custom_kernel returned float32[1, 4], expected", None, "shape and the dtype"),
        ("dtype", "custom_kernel returned float64[4, 4], expected", None, "shape and the dtype"),
        ("nan", "the output has 16 NaN among 16 values", None, "Write every element"),
        ("segfault", "the process was killed by SIGSEGV", (5, 5), "compiled code gets in line 5"),
        ("memory", "RuntimeError: [enforce fail", (5, 5), "Allocate less memory"),
        ("exit", "the process exited with code 3", None, "instead of ending the process"),
        ("exit_call", "the submission called exit(2)", None, "instead of ending the process"),
        ("cpp", "submission.cpp:5:17: error: conflicting", (5, 17), "Fix line 5"),
        ("flood", "more than 1 MiB was printed", None, "Remove what prints"),
        ("deep", "RecursionError: maximum recursion depth exceeded", (2, 12), "Fix line 2"),
        ("long_message", "ValueError: element 0 is wrong", (2, 5), "Fix line 2"),
        ("non_ascii", "ValueError: die Größe ist falsch: τ → 0", (3, 5), "Fix line 3"),
        ("chained", "RuntimeError: no tile", (5, 9), "Fix line 5"),
        ("late_write", "the output changed after the call", None, "Wait for every thread"),
        pytest.param(
            *("timeout", "one call took more than 5 s", None, "a loop that does not end"),
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_failure_is_told_once_with_its_place_and_what_to_do(
    host: Host, name: str, first: str, place: tuple[int, int] | None, step: str
) -> None:
    failure = failure_of(host, name)
    assert failure.message[0].startswith(first)
    assert (failure.error_line, failure.error_column) == (place or (None, None))
    assert step in failure.next_step
    text = "\n".join(failure_lines(failure))
    assert text.count(first) == 1
    assert len(failure.message) <= 7
    assert all(line.isprintable() for line in failure.error)


def test_the_own_frame_comes_first_and_equal_failures_are_one(host: Host) -> None:
    failure = failure_of(host, "helper")
    assert [line for line in failure.trace if line.startswith("  submission.py")] == [
        "  submission.py:5, in load",
        "  submission.py:9, in tile",
        "  submission.py:13, in custom_kernel",
    ]
    assert failure.cases == "2 of 2 cases"


def test_a_segmentation_fault_shows_the_own_frames_with_their_code(host: Host) -> None:
    assert failure_of(host, "segfault").trace == [
        "  submission.py:5, in read",
        "  > return ctypes.string_at(address)",
        "  submission.py:9, in custom_kernel",
        "    read(0)",
        "  raised in ctypes/__init__.py:519, in string_at",
    ]


def test_a_wrong_answer_has_a_table_of_the_first_elements(host: Host) -> None:
    failure = failure_of(host, "wrong_in_one")
    assert (failure.message, failure.wrong) == (["8 of 64 values differ"], 8)
    assert failure.cases == "1 of 2 cases: size=8 seed=7"
    assert [mismatch.index for mismatch in failure.mismatches[:2]] == ["[3, 0]", "[3, 1]"]
    heading, row, *_ = [line for line in failure_lines(failure) if line.startswith("  ")]
    assert heading.split() == ["index", "expected", "got"]
    assert row.startswith("  [3, 0]")


def test_a_compiler_shows_its_first_error_with_the_caret(host: Host) -> None:
    failure = failure_of(host, "cpp")
    assert failure.message[1:] == [
        '    5 | extern "C" void custom_kernel(const wb_tensor *data, const wb_tensor *out) {',
        "      |                 ^~~~~~~~~~~~~",
    ]
    later: Any = [line for line in failure.trace if "error:" in line]
    assert len(later) == 2


def policy_run(host: Host) -> RunReport:
    """Run a kernel that calls what its problem does not allow."""
    host.told_besides = {"shortcuts": {"forbid": ["torch.matmul"]}}
    return host.run(PRODUCT, suffix=".py")


def test_a_forbidden_call_is_shown_with_its_line_of_the_source(host: Host) -> None:
    failure = describe_failure(local_run(policy_run(host)))
    assert failure is not None
    assert failure.error == [
        "line 6: torch.matmul is not allowed",
        "  > return torch.matmul(inputs, inputs)",
    ]
    assert (failure.error_line, failure.error_column) == (6, None)
    assert "this problem does not allow it" in failure.next_step


@pytest.mark.parametrize(
    ("name", "verdict", "error"),
    [
        (
            *("policy", "uses what the problem does not allow"),
            ["line 6: torch.matmul is not allowed", "  > return torch.matmul(inputs, inputs)"],
        ),
        (
            *("segfault", "crashed"),
            [
                "the process was killed by SIGSEGV",
                "  submission.py:5, in read",
                "  > return ctypes.string_at(address)",
            ],
        ),
        (
            *("cpp", "does not compile"),
            [
                f"submission.cpp:5:17: error: {CONFLICT}",
                f'    5 | extern "C" void {NATIVE_LINE} {{',
                "      |                 ^~~~~~~~~~~~~",
            ],
        ),
    ],
)
def test_the_error_comes_first_and_once_on_the_command_line_on_discord_and_for_agents(
    host: Host, name: str, verdict: str, error: list[str]
) -> None:
    kernel = FAILING.get(name)
    report = host.run(kernel.source, suffix=kernel.suffix) if kernel else policy_run(host)
    document = make_document(FullSubmission, RANKED | msgspec.to_builtins(local_run(report)))
    shown = {
        "command line": run_against(respond_in_turn((200, document)), "submission", "show", 7)[0]
        .stdout.split(TIMELINE)[0]
        .splitlines(),
        "discord": report_card(msgspec.convert(document, FullSubmission)).body.splitlines(),
        "agents": asyncio.run(read_as_agent(document)),
    }
    for surface, lines in shown.items():
        place = 2 if surface == "discord" else 1
        assert verdict in lines[0], surface
        assert lines[place : place + len(error)] == error, surface
        assert "\n".join(lines).count(error[0]) == 1, surface
        assert "Fatal Python error" not in "\n".join(lines), surface


async def read_as_agent(document: dict[str, Any]) -> list[str]:
    """Return the summary of a submission that an agent of a language model reads."""
    with run_stand_in(respond_in_turn((200, document))) as platform:
        context = create_context().at(PlatformTarget(url=platform.url, participant="ada"))
        async with context.api() as api:
            result = await read_result(ToolContext(api, context.harness, skip_progress), 7)
    return list(result.summary)


async def skip_progress(_done: float, _total: float, _sentence: str) -> None:
    """Show no progress."""
