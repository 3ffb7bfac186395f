"""Hidden sizes are drawn by the run's key, cover the family, and are shown to nobody."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.hidden_sizes import HiddenFamily, Range, draws_hidden_sizes, read_family
from harness.problem import Problem, ProblemFault, load_problem
from harness.vocabulary import DUEL, MODES, VERIFY
from tests.support.harness import Host

KEYS = st.binary(min_size=32, max_size=32)
HIDDEN = {
    "tests": {"count": 3, "args": {"size": {"from": 5, "to": 9}, "seed": 0}},
    "benchmarks": {"count": 2, "weight": 2.5, "args": {"size": [40, 48], "seed": 0}},
}


def problem_with(host: Host, **changes: Any) -> Problem:
    """Return the host's problem with other entries in its manifest."""
    host.write()
    folder: Path = host.folder / "problem"
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    return load_problem(folder)


@given(KEYS, st.integers(1, 16), st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 999))
def test_every_draw_is_in_the_family(
    key: bytes, count: int, start: int, length: int, step: int
) -> None:
    for is_log in (False, True):
        sizes = Range(start, start + length, step, is_log)
        family = HiddenFamily("tests", count, {"size": sizes, "dtype": ("a", "b")})
        drawn = family.draw(key)
        assert len(drawn) == count
        for args in drawn:
            assert start <= args["size"] <= start + length
            assert (args["size"] - start) % step == 0
            assert args["dtype"] in ("a", "b")
        smallest, *largest = family.corners()
        assert smallest["size"] == start
        assert [args["size"] for args in largest] in ([sizes.last], [])


@given(KEYS)
def test_a_key_draws_the_same_again_and_each_part_of_the_range_once(key: bytes) -> None:
    family = HiddenFamily("benchmarks", 4, {"m": Range(0, 399), "n": Range(0, 399)})
    drawn = family.draw(key)
    assert drawn == family.draw(key)
    for name in ("m", "n"):
        assert sorted(args[name] // 100 for args in drawn) == [0, 1, 2, 3]


@pytest.mark.feature("N13")
def test_another_key_draws_other_sizes() -> None:
    family = HiddenFamily("tests", 4, {"size": Range(1, 2**40, is_log=True)})
    drawn = [str(family.draw(number.to_bytes(32, "big"))) for number in range(100)]
    assert len(set(drawn)) == 100


@pytest.mark.parametrize("mode", MODES)
def test_only_runs_with_a_hidden_stage_draw_hidden_cases(host: Host, mode: str) -> None:
    drawn = problem_with(host, hidden=HIDDEN, ranking_by="geom").with_drawn_cases(mode, bytes(32))
    assert drawn.has_hidden_sizes == (mode in ("ranked", DUEL)) == draws_hidden_sizes(mode)
    public = [case for stage in MODES[mode].stages for case in drawn.cases(stage, mode)]
    assert any("hidden" in case.name for case in public) == (mode in ("ranked", DUEL, VERIFY))


def test_the_hidden_cases_of_a_ranked_run_come_last_and_are_never_checked_in_public(
    host: Host,
) -> None:
    problem = problem_with(host, hidden=HIDDEN, ranking_by="geom")
    drawn = problem.with_drawn_cases("ranked", bytes(32))
    assert drawn.cases("check", "ranked") == problem.tests
    checked, timed = drawn.cases("hidden_check", "ranked"), drawn.cases("time", "ranked")
    assert checked[: len(problem.tests)] == problem.tests
    names = [f"hidden test {number}" for number in (1, 2, 3)]
    assert [case.name for case in checked[len(problem.tests) :]] == names
    assert [case.name for case in timed if case.is_hidden] == [
        "hidden benchmark 1",
        "hidden benchmark 2",
    ]
    assert [case.is_hidden for case in timed] == sorted(case.is_hidden for case in timed)
    assert {case.weight for case in timed if case.is_hidden} == {2.5}


@pytest.mark.parametrize(
    "family",
    [
        {"count": 0, "args": {"size": 1}},
        {"count": 17, "args": {"size": 1}},
        {"count": 1, "args": {"size": []}},
        {"count": 1, "args": {"size": {"from": 3, "to": 2}}},
        {"count": 1, "args": {"size": {"from": 1, "to": 2, "step": 0}}},
        {"count": 1, "args": {"size": {"from": 0, "to": 2, "scale": "log"}}},
        {"count": 1, "weight": 0, "args": {"size": 1}},
    ],
)
def test_an_impossible_family_is_a_fault_of_the_problem(host: Host, family: Any) -> None:
    with pytest.raises(ProblemFault):
        problem_with(host, hidden={"tests": family})
    with pytest.raises(ValueError, match=r"hidden|choices|range|nothing"):
        read_family("tests", family)
