"""A seed decides all that is drawn."""

from tests.system.chaos.plan import FAULTS, TARGETS, plan


def test_a_seed_is_always_the_same_plan() -> None:
    assert plan(7, 60.0) == plan(7, 60.0)
    assert plan(7, 60.0).strikes != plan(8, 60.0).strikes


def test_nobody_is_struck_before_he_recovered() -> None:
    last: dict[str, float] = {}
    for strike in plan(7, 600.0).strikes:
        assert strike.at_s - last.get(strike.whom, -60.0) >= 60 / 8, strike
        last[strike.whom] = strike.at_s + strike.for_s


def test_a_long_plan_kills_and_freezes_everybody() -> None:
    strikes = {(strike.what, strike.whom) for strike in plan(7, 1200.0).strikes}
    everybody = {(what, whom) for what in ("kill", "freeze") for whom in TARGETS}
    assert strikes == everybody | {(what, whom) for whom, what in FAULTS.items()}
