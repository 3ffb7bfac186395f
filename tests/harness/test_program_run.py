"""A problem's own program runs in the sandbox, and is trusted only as far as possible."""

import shutil
from typing import Any

import pytest

from harness.messages import CaseFailed, RunReport, from_line, to_line
from harness.problem import Case, ProblemFault
from harness.supervisor import program_run
from tests.support.harness import Host

MAIN = """
import os, sys
from reference import expected
from submission import custom_kernel
mode, file = sys.argv[1:]
cases = [dict(one.split(": ") for one in line.strip().split("; ")) for line in open(file)]
seed = int(os.environ.get("POPCORN_SEED", "0"))
said = os.fdopen(int(os.environ["POPCORN_FD"]), "w")
word = "test" if mode == "test" else "benchmark"
print(f"{word}-count: {len(cases)}", file=said)
is_right = True
for i, case in enumerate(cases):
    is_same = custom_kernel(int(case["size"]) + seed) == expected(int(case["size"]) + seed)
    is_right = is_right and is_same
    print(f"{word}.{i}.spec: {case}", file=said)
    if not is_same:
        print(f"{word}.{i}.status: fail\\n{word}.{i}.error: another number", file=said)
    elif word == "test":
        print(f"test.{i}.status: pass", file=said)
    else:
        figures = dict(runs=9, mean=2500.0, std=30.0, err=10.0, best=2e3, worst=3e3)
        for key, value in figures.items():
            print(f"benchmark.{i}.{key}: {value}", file=said)
print(f"check: {'pass' if is_right else 'fail'}", file=said)
said.close()
sys.exit(0 if is_right or mode == "leaderboard" else 112)
"""
RIGHT = "def custom_kernel(n):\n    return 2 * n\n"


@pytest.fixture
def own(host: Host) -> Host:
    """A host whose problem has its own program."""
    host.files = {"eval.py": MAIN, "reference.py": "def expected(n):\n    return 2 * n\n"}
    host.told_besides = {"main": "eval.py"}
    host.budgets_s = {}  # A start of its program counts.
    return host


def test_every_case_of_a_program_is_judged_for_its_author(own: Host) -> None:
    report = own.run(RIGHT, "verify")
    assert (report.verdict, report.failure_code) == ("passed", ""), report.reason + report.log_head
    assert [one.stage for one in report.cases] == ["check"] * 2 + ["timed_check"] * 2


@pytest.mark.feature("C10")
def test_a_programs_word_is_the_result_in_the_lower_tier(own: Host) -> None:
    report = own.run(RIGHT, "ranked")
    assert (report.verdict, report.failure_code) == ("passed", ""), report.reason + report.log_head
    timed = [one for one in report.cases if one.stage == "time"]
    assert [one.time_us for one in timed] == [2.5, 2.5]
    assert {one.grade for one in timed} == {"in_process"}
    assert all(one.is_hidden for one in report.cases if one.stage == "hidden_check")
    started: Any = own.messages[0]
    assert started.tier == "G0"


@pytest.mark.parametrize(
    ("source", "verdict", "words"),
    [
        ("def custom_kernel(n):\n    return n\n", "wrong_answer", "another number"),
        ("def custom_kernel(n):\n    return 2 * n if n < 99 else n\n", "wrong_answer", "hidden"),
        ("import os\ndef custom_kernel(n):\n    os.abort()\n", "crashed", "SIGABRT"),
        ("def custom_kernel(n):\n    raise KeyError\n", "crashed", "code 1"),
        ("raise ValueError('no')\n", "import_error", "ended with code 1"),
        ("import os, sys\ndef custom_kernel(n):\n    os._exit(0)\n", "protocol", "did not report"),
    ],
)
def test_any_other_submission_gets_its_verdict(
    own: Host, source: str, verdict: str, words: str
) -> None:
    report = own.run(source, "ranked")
    assert (report.verdict, report.failure_code) == (verdict, ""), report.reason
    assert words in report.reason


def test_an_endless_program_is_ended_with_all_it_started(own: Host) -> None:
    own.budgets_s = {"test": 3.0}
    report = own.run(
        "import subprocess, time\ndef custom_kernel(n):\n"
        "    subprocess.Popen(['sleep', '600'])\n    time.sleep(600)\n"
    )
    assert report.verdict == "timed_out"
    assert report.took_s < 60


def faulty(own: Host, main: str) -> RunReport:
    own.files["eval.py"] = main
    return own.run(RIGHT)


@pytest.mark.parametrize("where", ["os._exit(113)", "def custom_kernel(n): os._exit(113)"])
def test_a_submission_has_no_quota_back_by_blaming_the_program(own: Host, where: str) -> None:
    report = own.run(f"import os\n{where}\n")
    assert (report.failure_code, report.verdict) in (("", "crashed"), ("", "import_error"))
    assert "113" in str(report)


def test_a_program_that_cannot_run_says_so(own: Host) -> None:
    assert "could not read the cases" in str(faulty(own, "import sys; sys.exit(113)"))


def test_a_program_that_reports_no_profile_breaks_the_protocol(own: Host) -> None:
    report = own.run(RIGHT, "profile")
    assert report.failure_code == ""
    assert (report.verdict, report.artefacts) == ("protocol", []), report.reason


def test_more_than_a_pipe_holds_does_not_block(own: Host) -> None:
    talk = MAIN.replace(
        "is_right = True", "is_right = True; print('x-y: ' + 'z' * 300000, file=said)"
    )
    assert faulty(own, talk).verdict == "passed"
    flood = MAIN.replace("is_right = True", "is_right = True; print('z' * 5000000, file=said)")
    assert faulty(own, flood).verdict == "output_limit"


CASES = (Case("a", {"size": 4}), Case("b", {"size": 5}))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"check: fail\ncheck: pass\n", "'check' was reported twice"),
        (b"benchmark.0.mean: 5\nbenchmark.0.runs: x\ncheck: pass\n", "is not a number"),
        (
            b"benchmark.0.mean: nan\nbenchmark.0.runs: 3\ncheck: pass\n",
            "the time of a is out of range",
        ),
        (
            b"benchmark.0.mean: -1\nbenchmark.0.runs: 3\ncheck: pass\n",
            "the time of a is out of range",
        ),
        (
            b"benchmark.0.mean: 1e-290\nbenchmark.0.runs: 3\ncheck: pass\n",
            "the time of a is out of range",
        ),
        (
            b"benchmark.0.mean: 1e308\nbenchmark.0.runs: 3\ncheck: pass\n",
            "the time of a is out of range",
        ),
        (b"benchmark-count: 2\n", "did not report how its check ended"),
    ],
)
def test_what_cannot_be_meant_is_a_breach_of_protocol(said: bytes, words: str) -> None:
    with pytest.raises(CaseFailed, match=words) as caught:
        program_run.make_case_reports("time", CASES, program_run.parse_lines(said), 0)
    assert caught.value.verdict == "protocol"


@pytest.mark.parametrize(("said", "status"), [(b"", 0), (b"check: fail\n", 112)])
def test_an_error_of_the_program_is_no_wrong_answer(said: bytes, status: int) -> None:
    told = program_run.parse_lines(b"error: no CUDA device is available\n" + said)
    with pytest.raises(ProblemFault, match="could not judge: no CUDA device is available"):
        program_run.make_case_reports("check", CASES, told, status)
    wrong = program_run.parse_lines(
        b"test.0.status: fail\ntest.0.error: 7 != 8\nerror: one failed\n" + said
    )
    assert program_run.make_case_reports("check", CASES, wrong, status)[0].verdict == "wrong_answer"


def test_no_number_of_a_program_is_too_much_for_a_report() -> None:
    said = b"benchmark.0.mean: 2000\nbenchmark.0.runs: 3\ncheck: pass\n"
    said += b"".join(b"benchmark.0.%s: 1e308\n" % key for key in (b"err", b"std", b"worst"))
    (timed,) = program_run.make_case_reports("time", CASES[:1], program_run.parse_lines(said), 0)
    report = RunReport("passed", "time", "", 0.0, "", [timed])
    assert from_line(to_line(report)) == report


def test_the_example_of_the_protocol_reads_as_it_says() -> None:
    said = (
        b"test-count: 2\ntest.0.spec: size: 64; seed: 11\ntest.0.status: pass\n"
        b"test.1.spec: size: 65; seed: 12\ntest.1.status: fail\n"
        b"test.1.error: 3 of 4225 values differ\ncheck: fail\n"
    )
    first, second = program_run.make_case_reports(
        "check", CASES, program_run.parse_lines(said), 112
    )
    assert (first.verdict, second.verdict) == ("passed", "wrong_answer")
    assert second.message == "3 of 4225 values differ"
    for code in (2, 111, 113):
        with pytest.raises(CaseFailed, match="tell the problem's author"):
            program_run.make_case_reports("check", CASES, {}, code)


PROGRAM = """
#include "task.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
int main(int, char **argv) {
    FILE *said = fdopen(atoi(getenv("POPCORN_FD")), "w");
    bool is_test = !strcmp(argv[1], "test"), is_right = true;
    std::ifstream file(argv[2]);
    std::string line;
    for (int i = 0; std::getline(file, line); i++) {
        int size = atoi(line.c_str() + strlen("size: ")), is_same = custom_kernel(size) == 2 * size;
        is_right = is_right && is_same;
        if (!strcmp(argv[1], "profile"))
            fprintf(said, "benchmark.%d.report: Pz8*\\n", i);
        else if (is_test)
            fprintf(said, "test.%d.status: %s\\n", i, is_same ? "pass" : "fail");
        else
            fprintf(said, "benchmark.%d.runs: 9\\nbenchmark.%d.mean: 2500\\n", i, i);
    }
    fprintf(said, "check: %s\\n", is_right ? "pass" : "fail");
    fclose(said);
    return is_right ? 0 : 112;
}
"""
TWICE = '#include "task.h"\nint custom_kernel(int n) { return 2 * n; }\n'
ABORTING = TWICE.replace("return", "abort(); return").replace("int c", "#include <cstdlib>\nint c")


@pytest.fixture
def built(host: Host) -> Host:
    """A host whose problem has its own program in C++."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    host.files = {"eval.cu": PROGRAM, "task.h": "#pragma once\nint custom_kernel(int);\n"}
    native = {"sources": ["eval.cu"]}
    host.told_besides = {"main": "eval.cu", "lang": "cu", "submission": "submission.cu"}
    host.told_besides["native"] = native
    return host


@pytest.mark.parametrize(
    ("source", "mode", "verdict"),
    [
        (TWICE, "benchmark", "passed"),
        pytest.param(TWICE.replace("2 *", "3 *"), "test", "wrong_answer", marks=pytest.mark.long),
        pytest.param(TWICE.replace("2 *", "3 *;"), "test", "compile_error", marks=pytest.mark.long),
        pytest.param(ABORTING, "test", "crashed", marks=pytest.mark.long),
    ],
)
def test_a_program_in_cpp_is_built_with_the_submission_and_run(
    built: Host, source: str, mode: str, verdict: str
) -> None:
    report = built.run(source, mode, suffix=".cu")
    assert (report.verdict, report.failure_code) == (verdict, ""), report.reason + report.log_head
    if mode == "benchmark":
        assert [one.time_us for one in report.cases if one.stage == "time"] == [2.5, 2.5]


def test_what_a_program_reports_of_a_profile_is_kept_in_the_standard_alphabet(built: Host) -> None:
    report = built.run(TWICE, "profile", suffix=".cu")
    assert report.verdict == "passed", report.reason + report.log_head
    names = [one.name for one in report.artefacts]
    assert names == ["profile-0-report.txt", "profile-1-report.txt"]
    assert (built.out / names[0]).read_bytes() == b"???"
