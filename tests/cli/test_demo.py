"""What the demo submits, and which verdicts it takes."""

import io
from typing import Any

import pytest

from shared.api.submissions import FullSubmission
from shared.checks.problem_files import Sample, Solutions
from shared.errors import Refused
from tests.cli.answers import PASSED, WRONG, submission
from tests.cli.stand_in import respond_in_turn, run_stand_in
from tests.support.api_examples import make_document
from warpboard.api import Caller, open_api
from warpboard.domain.checks import NOT_PASSED
from warpboard.screen import Screen
from warpboard.service.answers import wait_until_over
from warpboard.terminal.demo import (
    PARTICIPANTS,
    Example,
    is_expected,
    plan_examples,
    plan_full_examples,
    verdict_table,
)

GOOD, BAD = Sample("good.py", b"def custom_kernel(data): ...\n"), Sample("bad.py", b"x = 1\n")
SLUGS = ("grayscale", "histogram", "identity", "matmul", "softmax", "vectoradd")


def solutions(slug: str) -> Solutions:
    return Solutions(slug, (GOOD, Sample("other.py", b"")), (BAD,))


def example(expected: str, mode: str = "ranked") -> Example:
    return Example("ada", "matmul", GOOD, mode, expected)


def test_three_participants_submit_a_file_each_for_one_problem() -> None:
    examples = plan_examples([solutions(slug) for slug in SLUGS])
    assert [
        (example.participant, example.problem, example.sample.name, example.expected)
        for example in examples
    ] == [
        ("ada", "identity", "good.py", "passed"),
        ("grace", "identity", "slow.py", "passed"),
        ("linus", "identity", "bad.py", NOT_PASSED),
    ]


def test_every_problem_gets_a_ranked_submission() -> None:
    examples = plan_full_examples([solutions(slug) for slug in SLUGS])
    ranked = {
        example.problem
        for example in examples
        if example.mode == "ranked" and example.expected == "passed"
    }
    assert ranked == set(SLUGS)


def test_every_participant_submits_about_ten_files_in_all() -> None:
    examples = plan_full_examples([solutions(slug) for slug in SLUGS])
    assert {example.participant for example in examples} == set(PARTICIPANTS)
    assert 10 <= len(examples) <= 14


def test_rivals_meet_on_one_leaderboard() -> None:
    examples = plan_full_examples([solutions(slug) for slug in SLUGS])
    rivals = {
        example.participant
        for example in examples
        if example.problem == "identity"
        and example.mode == "ranked"
        and example.expected == "passed"
    }
    assert rivals == set(PARTICIPANTS)


def test_each_way_not_to_pass_is_shown() -> None:
    expected = {plan_example.expected for plan_example in plan_full_examples([solutions("matmul")])}
    assert expected == {"passed", "not passed", "compile_error", "crashed", "timed_out"}


def test_the_slow_file_is_python() -> None:
    (slow,) = [
        plan_example
        for plan_example in plan_full_examples([solutions("p")])
        if plan_example.sample.name == "slow.py"
    ]
    compile(slow.sample.source, "slow.py", "exec")


def test_of_many_problems_few_are_submitted_to() -> None:
    examples = plan_full_examples([solutions(slug) for slug in (*SLUGS, "axpy", "zeta")])
    assert {example.problem for example in examples} == set(SLUGS)


def test_what_needs_a_gpu_is_not_submitted() -> None:
    triton = Sample("triton.py", b"#!POPCORN gpus H100 H200\nimport triton\n")
    examples = plan_full_examples([Solutions("matmul", (GOOD, triton), (BAD,))])
    assert triton not in [example.sample for example in examples]


def test_problems_without_solutions_are_not_submitted_for() -> None:
    examples = plan_full_examples([Solutions("bare", (), ()), solutions("matmul")])
    assert {example.problem for example in examples} == {"matmul"}
    with pytest.raises(Refused, match="solutions/correct"):
        plan_full_examples([Solutions("bare", (), ())])


@pytest.mark.parametrize(
    ("expected", "answer", "is_so"),
    [
        ("passed", PASSED, True),
        ("passed", PASSED | {"is_eligible": False}, False),
        ("passed", WRONG, False),
        (NOT_PASSED, WRONG, True),
        (NOT_PASSED, PASSED, False),
        (NOT_PASSED, WRONG | {"outcome": "infra_failed", "verdict": None}, False),
        ("crashed", WRONG | {"verdict": "crashed"}, True),
        ("crashed", WRONG, False),
    ],
)
def test_only_the_expected_verdict_is_taken(
    expected: str, answer: dict[str, Any], is_so: bool
) -> None:
    assert is_expected(example(expected), submission(answer)) is is_so


def test_a_passed_test_need_not_be_ranked() -> None:
    unranked = submission(PASSED | {"is_eligible": False, "mode": "test"})
    assert is_expected(example("passed", "test"), unranked)


def test_an_unexpected_verdict_stands_out() -> None:
    table = verdict_table([(example("passed"), submission(WRONG))])
    assert "NOT passed" in table.rows[0]


async def test_each_submission_is_asked_for_as_its_owner() -> None:
    answer = make_document(FullSubmission, {"state": "finished", "is_over": True})
    with run_stand_in(respond_in_turn((200, answer))) as standin:
        url = standin.url
        async with open_api(url, Caller("ada")) as ada, open_api(url, Caller("grace")) as grace:
            screen = Screen(io.StringIO(), io.StringIO())
            responses = await wait_until_over({12: ada, 13: grace}, screen, 10.0)
    assert [response.document for response in responses] == [answer, answer]
    askers = {
        request.path.partition("?")[0]: request.headers["warpboard-participant"]
        for request in standin.heard
    }
    assert askers == {"/v1/submissions/12": "ada", "/v1/submissions/13": "grace"}
