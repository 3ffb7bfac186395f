"""Each known cheat gets the outcome that its header names, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from harness.entry import Isolation, isolation
from tests.support.harness import Warm
from tests.support.rounds import holds_in_a_round

from .corpus import HERE, Cheat, corpus, named
from .outcomes import GAIN_MAX, judge
from .trials import Trials, alone_us

pytestmark = pytest.mark.box

CORPUS = corpus()
# What walls stop, the controls, and one cheat of the clock. A box of bubblewrap imports torch anew.
# The other lines end in the supervisor, and what is long in the keeper, whoever made the box.
WALLED = ("control", "S", "T27")
SECOND = [
    named("done_early"),
    *(
        one
        for one in CORPUS[::3]
        if one.id.startswith(WALLED) and one.holds_at("strong", "bubblewrap")
        if not one.is_long and not one.is_alone
    ),
]
# The lines of the catalogue that need no GPU; S19 is a test of its own, below. T23 is tested in
# tests/shared, S26 in tests/ingest; T16, S29, S30, M03 and M05 wait for what they are about.
LINES = {
    *(f"T{line:02}" for line in (1, 2, *range(5, 15), 17, 21, 24, 25, 26, 27)),
    *(f"C{line:02}" for line in (1, 2, *range(4, 18), 19)),
    *(f"S{line:02}" for line in (*range(1, 19), *range(20, 26), 27, 28)),
    *("M01", "M02", "M04", "M06"),
}
ROOT = HERE.parent.parent


def marked(one: Cheat) -> ParameterSet:
    """A cheat as a parameter; some want the machine for themselves, some take many seconds."""
    marks = [pytest.mark.alone] if one.is_alone else []
    return pytest.param(
        one, id=one.name, marks=[*marks, *([pytest.mark.long] if one.is_long else [])]
    )


def rounds() -> Iterator[ParameterSet]:
    """Who a lesser machine is played by, its level, and some cheats: the quick ones, the others."""
    for disguise, level, some in (
        ("user", "medium", CORPUS[1::3]),
        ("pod", "weak", CORPUS[2::3]),
    ):
        for is_alone, marks in ((False, []), (True, [pytest.mark.alone])):
            names = [one.name for one in some if one.is_alone == is_alone]
            called = f"{disguise}{' alone' if is_alone else ''}"
            yield pytest.param(disguise, level, names, id=called, marks=marks)


def test_every_line_of_the_catalogue_has_a_cheat() -> None:
    assert not LINES - {one.id for one in CORPUS}


def test_every_test_of_the_table_of_known_hacks_exists() -> None:
    _, _, rest = (ROOT / "docs" / "isolation.md").read_text().partition("## Known reward hacks")
    table = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    rows = [line.split("|")[1:-1] for line in table[2:]]
    patterns = [row for row in rows if not row[0].strip().startswith("**")]
    assert len(patterns) > 30
    for pattern, defence, tests in patterns:
        names = re.findall(r"`([^`]+)`", tests)
        assert pattern.strip(), defence
        assert defence.strip(), pattern
        assert names, pattern
        for name in names:
            assert (ROOT / name if "/" in name else HERE / "submissions" / name).exists(), name


@pytest.fixture(scope="module")
def here() -> Isolation:
    """What this machine can build."""
    return isolation()


@pytest.fixture(scope="module")
def zygote(warm: Warm) -> Iterator[Trials]:
    """Boxes forked from a zygote, at the best level that there is."""
    with tempfile.TemporaryDirectory() as folder, Trials(Path(folder), warm) as trials:
        yield trials


@pytest.fixture(scope="module")
def bubblewrap(here: Isolation) -> Iterator[Trials]:
    """Boxes that bubblewrap makes, the same in every promise."""
    if not here.has_bubblewrap:
        pytest.skip(f"no bubblewrap: {here.launchers[0].fix}")
    with (
        tempfile.TemporaryDirectory() as folder,
        Trials(Path(folder), launcher="bubblewrap") as trials,
    ):
        yield trials


def test_a_machine_where_we_are_root_is_strong(here: Isolation) -> None:
    if os.getuid() != 0:
        pytest.skip("not root, who alone can build every wall")
    assert here.level == "strong", here.missing


@pytest.mark.alone
def test_the_honest_control_passes_with_its_true_time(zygote: Trials) -> None:
    """Error rate: that of `holds_in_a_round`."""

    def is_as_slow_as_its_work() -> bool:
        (ended,) = zygote.run(named("honest"))
        assert ended.report.verdict == "passed", ended.report
        return min(ended.samples_us) >= (1 - GAIN_MAX) * alone_us([ended])

    assert holds_in_a_round(is_as_slow_as_its_work)


@pytest.mark.alone
def test_compiled_code_that_answers_by_itself_gains_no_more_than_a_tie(zygote: Trials) -> None:
    """Error rate: that of `holds_in_a_round`."""

    def is_a_tie_or_slower() -> bool:
        (honest,) = zygote.run(named("native_honest"))
        (ended,) = zygote.run(named("native_answers"))
        assert honest.report.verdict == ended.report.verdict == "passed", ended.report
        # It is Python's only until it takes over, once for each time that the case is opened.
        assert 0 < ended.log.count("IN_PYTHON") < len(ended.samples_us) / 10
        return min(ended.times_us) >= min(honest.times_us) - ended.report.tie_us

    assert holds_in_a_round(is_a_tie_or_slower)


@pytest.mark.feature("N17")
@pytest.mark.parametrize("one", [marked(one) for one in CORPUS])
def test_a_cheat_ends_as_its_header_says(one: Cheat, zygote: Trials, here: Isolation) -> None:
    _try(one, zygote, here)


@pytest.mark.long
@pytest.mark.parametrize("one", [marked(one) for one in SECOND])
def test_a_cheat_ends_no_better_under_bubblewrap(
    one: Cheat, bubblewrap: Trials, here: Isolation
) -> None:
    _try(one, bubblewrap, here)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("disguise", "level", "names"), [*rounds()])
def test_cheats_end_no_better_where_walls_are_missing(
    disguise: str, level: str, names: list[str]
) -> None:
    if os.getuid() != 0:
        pytest.skip("not root, who alone can become somebody else")
    command = [sys.executable, "-m", f"tests.sandbox.disguise.{disguise}", sys.executable]
    words = ["-m", "tests.cheats", "--launcher", "zygote", "--level", level]
    done = subprocess.run(
        [*command, *words, *names], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT RUN" not in done.stdout


@pytest.mark.long
def test_a_killed_supervisor_takes_the_submission_along(zygote: Trials) -> None:
    def kill(_: str) -> None:
        for pid in zygote.supervisors:
            os.kill(pid, signal.SIGKILL)

    patient = named("hang").like(budgets="test=20")
    (ended,) = zygote.run(patient, meanwhile=kill)
    assert ended.report.failure_code == "supervisor"
    assert not ended.left
    (ended,) = zygote.run(named("honest"))
    assert ended.report.verdict == "passed"


def _try(one: Cheat, trials: Trials, here: Isolation) -> None:
    if not one.holds_at(here.level, "zygote"):
        pytest.skip(f"this machine is {here.level}: {[wall.fix for wall in here.missing]}")
    assert not judge(one, trials).faults
    assert trials.bystanders.are_well
