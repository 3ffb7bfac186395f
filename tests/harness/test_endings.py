"""Bad input of every kind gets one clear answer; tests/cheats covers hostile input."""

import pytest

from tests.support.harness import HONEST, Host

FLOAT64 = "def custom_kernel(data):\n    return data[0].double()\n"
SMALL = "def custom_kernel(data):\n    return data[0][:2]\n"
NAN = "def custom_kernel(data):\n    return data[0] * float('nan')\n"
RAISES = "def helper():\n    raise KeyError('lost')\ndef custom_kernel(data):\n    helper()\n"
EXITS = "def custom_kernel(data):\n    exit(3)\n"
PRINTS = "def custom_kernel(data):\n    print('y' * 100_000_000)\n"
ENDLESS_AFTER_WARM_UP = """
CALLS = []
def custom_kernel(data):
    while CALLS: pass
    CALLS.append(0)
    return data[1].copy_(data[0])
"""
WRONG = "def custom_kernel(data):\n    return data[1].copy_(data[0] + (len(data[0]) == 4))\n"
RETURNS = "def custom_kernel(data):\n    return data[0].{}\n"
DENSE = "expected a dense torch.Tensor float32[4, 4]"
ARITY = "def custom_kernel(matrix, out):\n    return matrix\n"
IN_LIBRARY = """
import torch
def custom_kernel(data):
    return torch.nn.functional.softmax(data[0], dim=9)
"""
SPAWNS = """
import multiprocessing
def double(number, queue):
    queue.put(2 * number)
def custom_kernel(data):
    if len(data[0]) == 4:
        spawning = multiprocessing.get_context("spawn")
        queue = spawning.Queue()
        process = spawning.Process(target=double, args=(21, queue))
        process.start()
        assert queue.get(timeout=20) == 42
        process.join()
    return data[1].copy_(data[0])
"""


@pytest.mark.parametrize(
    ("source", "verdict", "reason"),
    [
        (b"def custom_kernel(data:\n", "compile_error", "SyntaxError"),
        (b"", "import_error", "submission.py defines no function custom_kernel"),
        (b"from reference import ref_kernel\n", "import_error", "ModuleNotFoundError"),
        (b"exit()\n", "import_error", "the submission called exit(None)"),
    ],
)
def test_what_cannot_be_loaded_fails_to_build(
    host: Host, source: bytes, verdict: str, reason: str
) -> None:
    report = host.run(source)
    assert (report.verdict, report.stage) == (verdict, "build")
    assert reason in report.reason
    assert report.cases == []


@pytest.mark.parametrize(
    ("source", "verdict", "message"),
    [
        (FLOAT64, "wrong_answer", "returned float64[4, 4], expected float32[4, 4]"),
        (SMALL, "wrong_answer", "returned float32[2, 4], expected float32[4, 4]"),
        (
            RETURNS.format("numpy()"),
            "wrong_answer",
            f"returned a numpy.ndarray float32[4, 4], {DENSE}",
        ),
        (
            RETURNS.format("to_sparse()"),
            "wrong_answer",
            f"returned a tensor of layout torch.sparse_coo float32[4, 4], {DENSE}",
        ),
        (
            RETURNS.format("to('meta')"),
            "wrong_answer",
            f"returned a tensor on the device meta, without values, float32[4, 4], {DENSE}",
        ),
        (NAN, "wrong_answer", "the output has 16 NaN among 16 values"),
        ("def custom_kernel(data): pass", "wrong_answer", "the output was never written"),
        (EXITS, "crashed", "the submission called exit(3)"),
        (PRINTS, "output_limit", "more than 1 MiB was printed"),
    ],
)
def test_what_cannot_be_accepted_is_told_why(
    host: Host, source: str, verdict: str, message: str
) -> None:
    report = host.run(source)
    assert (report.verdict, report.stage) == (verdict, "check")
    assert message in report.cases[0].message
    assert message in report.reason


def test_an_exception_is_shown_from_the_submissions_first_line(host: Host) -> None:
    message = host.run(RAISES).cases[0].message
    assert message.startswith("Traceback")
    assert message.endswith("KeyError: 'lost'")
    assert 'File "submission.py", line 2, in helper' in message
    assert "harness" not in message


def test_an_error_in_the_call_itself_shows_no_frame_of_ours(host: Host) -> None:
    message = host.run(ARITY).cases[0].message
    assert message == "TypeError: custom_kernel() missing 1 required positional argument: 'out'"


def test_frames_of_a_library_show_no_folder_of_the_machine(host: Host) -> None:
    message = host.run(IN_LIBRARY).cases[0].message
    frames = [line for line in message.splitlines() if line.startswith("  File")]
    assert frames[0] == '  File "submission.py", line 4, in custom_kernel'
    assert frames[1].startswith('  File "torch/nn/functional.py"')
    assert '"/' not in message


def test_a_submission_may_spawn_processes(host: Host) -> None:
    report = host.run(SPAWNS)
    assert report.verdict == "passed", (report.reason, report.log_tail)


def test_a_wrong_case_does_not_keep_the_others_from_being_checked(host: Host) -> None:
    report = host.run(WRONG)
    assert [case.verdict for case in report.cases] == ["wrong_answer", "passed"]
    assert report.reason.startswith("check failed (wrong_answer) on size=4 seed=7: 16 of 16")


def test_cases_after_the_workers_death_are_skipped(host: Host) -> None:
    report = host.run("import os\ndef custom_kernel(data):\n    os.abort()\n")
    assert [case.verdict for case in report.cases] == ["crashed", "skipped"]
    assert "SIGABRT" in report.reason


def test_an_endless_call_is_timed_out(host: Host) -> None:
    host.budgets_s = {"test": 0.5}
    report = host.run(ENDLESS_AFTER_WARM_UP)
    assert [case.verdict for case in report.cases] == ["timed_out", "skipped"]
    assert "the stage used up its budget" in report.reason


def test_the_log_keeps_head_and_tail_of_what_was_printed(host: Host) -> None:
    report = host.run("print('first')\nprint('x' * 200_000)\nprint('last')\n" + HONEST)
    whole = (host.out / "log.txt").read_text()
    assert report.log_head.startswith("first")
    assert report.log_tail.endswith("last\n")
    assert report.log_bytes == 200_012
    assert "bytes are left out here" in whole
    assert len(whole) < 70_000


def test_usage_is_measured_even_of_a_failed_run(host: Host) -> None:
    usage = host.run("exit()").usage
    assert usage["wall_s"] > 0
    assert usage["cpu_s"] > 0
    assert usage["peak_memory_mib"] > 1
