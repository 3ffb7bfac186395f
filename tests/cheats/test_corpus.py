"""Each known cheat gets the verdict that its header names, and leaves nothing behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .corpus import SUBMISSIONS, Cheat, Ended, cheat, run

SECRET = "the agent's token"
HONEST = cheat(SUBMISSIONS / "honest.py")
LATER = {"level", "problem", "runs", "at_once", "key_reversed", "never_says"}  # a sandbox's, to come
OTHERS = [
    one
    for path in sorted(SUBMISSIONS.glob("*.py"))
    if (one := cheat(path)) != HONEST and not LATER & one.header.keys()
]
TIMING = [one for one in OTHERS if one.header.get("check") == "no_gain"]

# What the handshake may hide of a call, as a share of the time that its work alone takes.
GAIN_MAX = 0.03


@pytest.fixture(scope="module", autouse=True)
def secret() -> Iterator[None]:
    """Something in the agent's environment that no submission may ever print."""
    os.environ["WARPBOARD_TEST_SECRET"] = SECRET
    yield
    del os.environ["WARPBOARD_TEST_SECRET"]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The honest control, which also prints how long its work alone takes."""
    return run(HONEST, tmp_path_factory.mktemp("honest"))


def test_the_honest_control_passes_with_its_true_time(honest: Ended) -> None:
    _expect(HONEST, honest)
    assert min(honest.samples_us) >= (1 - GAIN_MAX) * _alone_us(honest)


@pytest.mark.parametrize(
    "one", [one for one in OTHERS if one not in TIMING], ids=lambda one: one.path.stem
)
def test_a_cheat_gets_its_verdict_and_leaves_nothing(one: Cheat, tmp_path: Path) -> None:
    _expect(one, run(one, tmp_path))


@pytest.mark.parametrize("one", TIMING, ids=lambda one: one.path.stem)
def test_a_timing_cheat_gains_nothing(one: Cheat, honest: Ended, tmp_path: Path) -> None:
    ended = run(one, tmp_path)
    _expect(one, ended)
    if ended.report.verdict == "passed":
        assert min(ended.samples_us) >= (1 - GAIN_MAX) * _alone_us(honest)


def _alone_us(honest: Ended) -> float:
    word, value = honest.log.split()
    assert word == "ALONE_US"
    return float(value)


def _expect(one: Cheat, ended: Ended) -> None:
    header, report = one.header, ended.report
    assert report.failure_code == "", report.reason
    assert report.verdict in header["expect"].split(), report.reason
    assert header.get("says", "") in report.reason
    assert header.get("prints", "") in ended.log
    assert header.get("never_prints", SECRET) not in ended.log
    assert SECRET not in ended.log
    if least_us := header.get("time_us_min"):
        assert min(ended.times_us) >= float(least_us)
    assert ended.seen, "no process was ever seen, so their absence would say nothing"
    assert not [pid for pid in ended.seen if Path(f"/proc/{pid}").exists()]
