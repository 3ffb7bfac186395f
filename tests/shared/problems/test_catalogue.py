"""Every shipped problem judges its own solutions rightly."""

from pathlib import Path

import pytest

from tests.shared.problems.catalogue import (
    PROBLEMS,
    SLUGS,
    cloned,
    equal,
    files,
    named,
    opened,
    torch,
)


def test_six_problems_are_shipped() -> None:
    assert SLUGS == ["grayscale", "histogram", "identity", "matmul", "softmax", "vectoradd"]


@pytest.mark.parametrize("slug", SLUGS)
def test_a_problem_has_solutions_of_both_kinds(slug: str) -> None:
    solutions = PROBLEMS / slug / "solutions"
    correct = [path.stem for path in (solutions / "correct").glob("*.py")]
    assert any(stem.startswith("torch_") for stem in correct)
    assert any(not stem.startswith("torch_") for stem in correct)
    assert len(list((solutions / "wrong").glob("*.py"))) >= 3


@pytest.mark.parametrize("slug", SLUGS)
def test_inputs_follow_from_the_seed_alone(slug: str) -> None:
    with opened(slug) as problem:
        for case in problem.cases:
            one, same, other = (problem.data(case, seed=seed) for seed in (5, 5, 2**62 + 6))
            assert equal(one, same)
            assert not equal(one[:1], other[:1]) or one[0].numel() == 1


@pytest.mark.parametrize("slug", SLUGS)
def test_the_reference_writes_the_last_tensor_alone(slug: str) -> None:
    with opened(slug) as problem:
        for case in problem.cases:
            data = problem.data(case)
            given = cloned(data)
            answer = problem.reference.ref_kernel(data)
            assert answer.data_ptr() == data[-1].data_ptr()
            assert equal(data[:-1], given[:-1])


@pytest.mark.parametrize("slug", SLUGS)
def test_the_reference_passes_its_own_check(slug: str) -> None:
    with opened(slug) as problem:
        for case in problem.cases:
            assert problem.complaint(problem.reference.ref_kernel, case) is None


@pytest.mark.parametrize("slug", SLUGS)
def test_a_check_changes_neither_inputs_nor_output(slug: str) -> None:
    with opened(slug) as problem:
        for case in problem.cases:
            data = problem.data(case)
            answer = torch().ones_like(data[-1])
            given = cloned((*data, answer))
            problem.reference.check_implementation(data, answer)
            assert equal((*data, answer), given)


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize("value", [0, 1])
def test_a_constant_answer_is_wrong(slug: str, value: int) -> None:
    with opened(slug) as problem:
        assert problem.complaint(lambda data: data[-1].fill_(value), problem.cases[-1])


@pytest.mark.parametrize("slug", [slug for slug in SLUGS if slug != "histogram"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_one_value_that_is_no_number_is_wrong(slug: str, value: float) -> None:
    with opened(slug) as problem:
        answer = problem.reference.ref_kernel(data := problem.data(problem.cases[-1]))
        answer.view(-1)[-1] = value
        is_right, _ = problem.reference.check_implementation(data, answer)
        assert not is_right


@pytest.mark.parametrize("path", files("correct"), ids=named)
def test_a_correct_solution_passes_every_test(path: Path) -> None:
    with opened(path.parents[2].name) as problem:
        kernel = problem.kernel(path)
        said = {str(case): problem.complaint(kernel, case) for case in problem.cases}
    assert not any(said.values()), said


@pytest.mark.parametrize("path", files("wrong"), ids=named)
def test_a_wrong_solution_fails_a_test(path: Path) -> None:
    with opened(path.parents[2].name) as problem:
        kernel = problem.kernel(path)
        assert any(problem.complaint(kernel, case) for case in problem.cases)


@pytest.mark.parametrize("slug", SLUGS)
def test_the_template_runs_and_is_wrong(slug: str) -> None:
    with opened(slug) as problem:
        kernel = problem.kernel(problem.folder / "template.py")
        assert any(problem.complaint(kernel, case) for case in problem.cases)
