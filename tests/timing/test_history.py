"""What a machine remembers of its past measurements."""

import json

import pytest

from harness.time.policy import PASSES_MAX, PASSES_MIN, SHAPES_MAX, History, interpolate_sigma


def history_of(values: list[float]) -> History:
    history = History()
    for value in values:
        history = history.with_pass({"fma": value}, "4/4", value)
    return history


def test_a_young_history_says_nothing() -> None:
    young = history_of([50.0] * (PASSES_MIN - 1))
    assert young.reference_us("fma") is None
    assert young.null_us("4/4") is None
    assert young.with_pass({"fma": 50.0}, "4/4", 1.0).reference_us("fma") == 50.0


def test_the_median_forgets_what_is_long_past() -> None:
    assert history_of([10.0] * 100 + [20.0] * PASSES_MAX).reference_us("fma") == 20.0
    assert len(history_of([10.0] * 100).references["fma"]) == PASSES_MAX


def test_one_odd_pass_does_not_move_the_median() -> None:
    assert history_of([10.0] * 9 + [500.0]).null_us("4/4") == 10.0


def test_shapes_that_nobody_uses_are_forgotten() -> None:
    history = History()
    for number in range(3 * SHAPES_MAX):
        history = history.with_pass({}, "often", 5.0).with_pass({}, str(number), 1.0)
    assert len(history.nulls) == SHAPES_MAX
    assert history.null_us("often") == 5.0


def test_a_pass_without_null_calls_adds_none() -> None:
    assert History().with_pass({"fma": 1.0}, "4/4", 0.0).nulls == {}


def test_a_history_survives_its_file() -> None:
    history = history_of([1.5, 2.5, 3.5])
    assert History.from_json(json.loads(json.dumps(history.to_json()))) == history


def test_a_full_history_is_a_small_file() -> None:
    history = History()
    for number in range(SHAPES_MAX * PASSES_MAX):
        shape = f"{number % SHAPES_MAX} bytes"
        history = history.with_pass({"fma": 123.456789012345}, shape, 123.456789012345)
    assert len(json.dumps(history.to_json())) < 100_000


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"version": 2, "references": {}, "nulls": {}, "sigma_run": []},
        {"version": 1, "references": [], "nulls": {}, "sigma_run": []},
        {"version": 1, "references": {"fma": ["1"]}, "nulls": {}, "sigma_run": []},
        {"version": 1, "references": {"fma": [True]}, "nulls": {}, "sigma_run": []},
        {"version": 1, "references": {"fma": [float("nan")]}, "nulls": {}, "sigma_run": []},
        {"version": 1, "references": {"fma": [10**400]}, "nulls": {}, "sigma_run": []},
        {"version": 1, "references": {"fma": [1e300] * 9}, "nulls": {}, "sigma_run": []},
        {"version": 1, "references": {}, "nulls": {}, "sigma_run": [[1e-300, 1e-300]]},
        {"version": 1, "references": {}, "nulls": {"a": [-1.0]}, "sigma_run": []},
        {"version": 1, "references": {}, "nulls": {}, "sigma_run": [1.0]},
        {"version": 1, "references": {}, "nulls": {}, "sigma_run": [[0.0, 0.1]]},
    ],
)
def test_what_is_no_history_is_refused(body: object) -> None:
    with pytest.raises(ValueError, match="not a history"):
        History.from_json(body)


def test_the_deviation_between_known_times_is_interpolated() -> None:
    table = [(100.0, 0.10), (1000.0, 0.02), (5000.0, 0.004)]
    assert interpolate_sigma(table, 1.0) == 0.10
    assert 0.02 < interpolate_sigma(table, 300.0) < 0.10
    assert interpolate_sigma(table, 1000.0) == pytest.approx(0.02)
    assert interpolate_sigma(table, 1e6) == 0.004
