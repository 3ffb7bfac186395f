"""Problems in C++, compiled with g++ on the processor."""

import shutil

import pytest

from tests.support.harness import Host

pytestmark = [
    pytest.mark.box,
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++"),
]

TASK = """
#pragma once
#include <array>
#include <string>
#include <tuple>
#include <vector>
struct Scaled { std::vector<float> values; float by; std::string word; };
using input_t = std::tuple<Scaled, std::array<std::vector<int>, 2>>;
using output_t = std::pair<std::vector<float>, int64_t>;
constexpr std::array<const char *, 3> ArgumentNames = {"size", "kind", "seed"};
"""
REFERENCE = """
#include "utils.h"
#include <cmath>
#include <random>
static input_t generate_input(int size, std::string kind, int seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    Scaled made{std::vector<float>(size), FACTOR, kind};
    for (float &one : made.values) one = normal(engine);
    return {made, {std::vector<int>(size, seed % 1000), std::vector<int>{}}};
}
static output_t ref_kernel(input_t data) {
    output_t found(std::get<0>(data).values, (int64_t)std::get<1>(data)[0][0]);
    for (float &one : found.first) one *= std::get<0>(data).by;
    return found;
}
static void check_implementation(TestReporter &reporter, input_t data, output_t output) {
    output_t expected = ref_kernel(data);
    if (!reporter.check_equal("size", output.first.size(), expected.first.size())) return;
    if (!reporter.check_equal("sum", output.second, expected.second)) return;
    for (size_t i = 0; i < expected.first.size(); i++)
        if (!(std::fabs(output.first[i] - expected.first[i]) <= 1e-6f)) {
            reporter.fail() << "at " << i << ": got " << output.first[i];
            return;
        }
    reporter.pass();
}
"""
RIGHT = """
#include "task.h"
#include "utils.h"
output_t custom_kernel(input_t data) {
    auto &[scaled, numbers] = data;
    for (float &one : scaled.values) one *= scaled.by;
    return {scaled.values, scaled.word == "plain" ? numbers[0][0] : -1};
}
"""


@pytest.fixture
def native(host: Host) -> Host:
    """A host whose problem is in C++."""
    args = {"size": 33, "kind": "plain", "seed": 5}
    cases = [{"name": "size=33", "args": args}]
    host.files = {"task.h": TASK, "reference.cuh": REFERENCE}
    host.told_besides = {
        "lang": "cu",
        "submission": "submission.cu",
        "tests": cases,
        "benchmarks": cases,
        "native": {"defines": {"FACTOR": "1.5f"}, "flags": ["-O1"]},
    }
    return host


def test_a_right_kernel_passes_and_is_timed(native: Host) -> None:
    report = native.run(RIGHT, "benchmark", suffix=".cu")
    assert (report.verdict, report.failure_code) == ("passed", ""), report.reason
    assert report.cases[-1].time_us


@pytest.mark.parametrize(
    ("old", "new", "verdict", "words"),
    [
        ("*= scaled.by", "*= 1.25f", "wrong_answer", "at 0: got"),
        ("numbers[0][0] : -1", "numbers[0][0] + 1 : -1", "wrong_answer", "sum: got"),
        ("return {", "scaled.values.pop_back(); return {", "crashed", "has 32 values, expected 33"),
        ("return {", 'throw std::runtime_error("no"); return {', "crashed", "returned 2: no"),
        ("auto &[", "auto [", "compile_error", ""),
        ("output_t custom", "output_t other", "compile_error", "custom_kernel"),
        ('"task.h"', '"reference.cuh"', "compile_error", "No such file"),
    ],
)
def test_any_other_kernel_gets_its_verdict(
    native: Host, old: str, new: str, verdict: str, words: str
) -> None:
    source = RIGHT.replace(old, new)
    if verdict == "compile_error" and not words:
        source = source.replace("return", "retrun")
    report = native.run(source, suffix=".cu")
    assert (report.verdict, report.failure_code) == (verdict, ""), report.reason
    assert words in report.reason


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("static output_t", "static outptu_t", "reference.cuh does not compile"),
        ("reporter.pass();", "", "it said neither pass() nor fail()"),
        ("Scaled made{", 'throw std::runtime_error("dry"); Scaled made{', "dry"),
    ],
)
def test_what_the_author_got_wrong_is_the_problems_fault(
    native: Host, old: str, new: str, words: str
) -> None:
    native.files["reference.cuh"] = REFERENCE.replace(old, new)
    report = native.run(RIGHT, suffix=".cu")
    assert report.failure_code == "problem_fault"
    assert words in report.reason


LIES = """
#include "task.h"
namespace wb {
template <> inline void flatten<output_t>(const output_t &, std::vector<leaf> &out) {
    int64_t count = COUNT;
    int one = 1;
    put(out, WB_INT64, &count, sizeof count, 1);
    put(out, WB_INT32, &one, sizeof one, 1);
}
}
output_t custom_kernel(input_t data) { return data; }
"""


def test_an_answer_that_lies_about_its_parts_is_the_submissions_fault(native: Host) -> None:
    task = TASK[: TASK.index("using input_t")] + TASK[TASK.index("constexpr") :]
    native.files = {
        "task.h": task + "using input_t = std::vector<std::vector<int>>; using output_t = input_t;",
        "reference.cuh": """
#include "utils.h"
static input_t generate_input(int, std::string, int seed) { return {{seed % 7}}; }
static output_t ref_kernel(input_t data) { return data; }
static void check_implementation(TestReporter &reporter, input_t data, output_t output) {
    if (reporter.check_equal("first", output.at(0).at(0), data[0][0])) reporter.pass();
}
""",
    }
    for count in ("0", "INT64_C(1) << 40"):
        report = native.run(LIES.replace("COUNT", count), suffix=".cu")
        assert (report.verdict, report.failure_code) == ("wrong_answer", ""), report.reason
        assert "the answer cannot be read" in report.reason


VIEWED_TASK = """
#pragma once
#include <array>
#include <string>
#include <tuple>
#include <vector>
using input_t = std::tuple<std::vector<float>, float, std::array<std::vector<int>, 2>, std::string>;
using output_t = std::pair<std::vector<float>, int64_t>;
constexpr std::array<const char *, 2> ArgumentNames = {"size", "seed"};
"""
VIEWED_REFERENCE = """
#include "more.h"
#include "utils.h"
static input_t generate_input(int size, int seed) {
    std::vector<float> made(size);
    for (int i = 0; i < size; i++) made[i] = float((seed + 7919ll * i) % 1000);
    return {made, 1.5f, {std::vector<int>(2, seed % 1000), std::vector<int>(1, 4)}, "ab"};
}
static output_t ref_kernel(input_t data) {
    auto &[values, by, numbers, word] = data;
    for (float &one : values) one = scaled(one, by);
    return {values, numbers[0][1] + numbers[1][0] + (int64_t)word.size()};
}
static void check_implementation(TestReporter &reporter, input_t data, output_t output) {
    if (output == ref_kernel(data)) reporter.pass();
    else reporter.fail() << "other values";
}
"""
MORE = '#include "more.h"\nfloat scaled(float one, float by) { return one * by; }\n'
VIEWS = """
#include "task.h"
#include "wb_device.h"
#include <more.h>
void custom_kernel(wb::device<input_t> data, wb::device<output_t> output) {
    auto [values, by, numbers, word] = data;
    for (int64_t i = 0; i < values.size; i++)
        output.first.data[i] = scaled(values.data[i], *by.data);
    *output.second.data = numbers[0].data[1] + numbers[1].data[0] + word.size;
}
"""


@pytest.fixture
def viewed(native: Host) -> Host:
    """A problem in C++ whose arrays stay on the device, with its own source."""
    more = "#pragma once\nfloat scaled(float one, float by);\n"
    native.files = {"task.h": VIEWED_TASK, "reference.cuh": VIEWED_REFERENCE}
    native.files |= {"more.h": more, "more.cpp": MORE}
    cases = [{"name": "size=33", "args": {"size": 33, "seed": 5}}]
    native.told_besides |= {
        "tests": cases,
        "benchmarks": cases,
        "native": {"sources": ["more.cpp"], "arrays": "device"},
    }
    return native


@pytest.mark.parametrize(
    ("old", "new", "verdict", "words"),
    [
        ("", "", "passed", ""),
        ("+ word.size", "", "wrong_answer", "other values"),
        ("output.first.data[i] =", "float lost =", "wrong_answer", "never written"),
        ('"task.h"', '"reference.cuh"', "compile_error", "No such file"),
    ],
)
def test_arrays_may_stay_where_they_are(
    viewed: Host, old: str, new: str, verdict: str, words: str
) -> None:
    report = viewed.run(VIEWS.replace(old, new), suffix=".cu")
    assert (report.verdict, report.failure_code) == (verdict, ""), report.reason
    assert words in report.reason
