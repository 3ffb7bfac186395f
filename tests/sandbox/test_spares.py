"""A spare box has the walls of any other, and nothing of any job; it is used once."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.sandbox.box import Limits
from harness.sandbox.launcher import ZygoteLauncher
from harness.sandbox.linux import descendants
from harness.sandbox.probe import Isolation
from tests.support.waits import comes_true

from .boxes import HONEST, READY, BoxFactory, RunningBox
from .test_zygote import groups, is_gone, keeper_of

pytestmark = pytest.mark.box

# It leaves its mark wherever it can, and keeps running.
FORMER = """
import os, random, torch
from pathlib import Path
mark = "LEFT" + "-BEHIND"
os.environ["MARK"] = mark
for folder in ("/scratch", "/dev/shm"):
    Path(folder, mark).write_text(mark * 1000)
random.seed(1)
torch.manual_seed(1)
marks = [mark + str(number) for number in range(1000)]
"""
# It kills every process that it can see or guess.
KILLER = """
import os, signal
for pid in [-1, *range(2, 70000)]:
    try:
        if pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
"""


@pytest.fixture(scope="module")
def launcher(isolation: Isolation) -> Iterator[ZygoteLauncher]:
    """A zygote for these tests, on a machine that has namespaces."""
    if "namespaces" not in isolation.walls:
        pytest.skip("a spare box needs namespaces")
    launcher = ZygoteLauncher()
    yield launcher
    launcher.close()


@pytest.fixture
def factory(
    launcher: ZygoteLauncher, isolation: Isolation, open_folder: Path
) -> Iterator[BoxFactory]:
    """Starts boxes with that zygote, which has no spare box at first."""
    folder = open_folder / f"spares-{launcher.pid}"
    folder.mkdir(exist_ok=True)
    launcher.make_spares(0)
    box_factory = BoxFactory(launcher, isolation, folder)
    yield box_factory
    box_factory.close()


def make_spares(factory: BoxFactory, count: int = 1) -> None:
    """Make spare boxes and wait for them."""
    factory.launcher.make_spares(count)
    assert factory.launcher.settle_spares() == count


def start(factory: BoxFactory, source: str = HONEST, **changes: Any) -> RunningBox:
    """Start a box whose worker is ready."""
    running_box = factory.start_box(factory.spec(source, **changes))
    assert running_box.answer() == READY, running_box.printed()
    return running_box


def test_a_spare_box_has_the_walls_of_a_fresh_one_and_nothing_of_a_former_job(
    factory: BoxFactory,
) -> None:
    limits = Limits(memory_bytes=2 * 1024**3, cpu_s=77, files_max=99)
    fresh = factory.run_submission("newcomer.py", limits=limits)
    former = start(factory, FORMER + HONEST)
    make_spares(factory, 2)
    found = [factory.run_submission("newcomer.py", limits=limits) for _ in range(2)]
    assert factory.launcher.counts()["spares"] == 0, "both were used"
    assert former.end()
    for one in found:
        assert one["walls"] == fresh["walls"]
        assert one["traces"]["marks"] == 0
        assert one["traces"]["cpu_s"] < fresh["traces"]["cpu_s"] + 1.0
    drawn = [number for one in (fresh, *found) for number in one["traces"]["random"]]
    assert len(set(drawn)) == len(drawn), "no two boxes draw the same numbers"


def test_a_submission_cannot_end_a_spare_box(factory: BoxFactory) -> None:
    start(factory).end()
    make_spares(factory, 2)
    (_, left) = spare_keepers(factory)
    assert keeper_of(start(factory, KILLER + HONEST)) != left
    factory.close()
    factory.launcher.clear()
    assert factory.launcher.counts()["spares"] == 1
    assert keeper_of(start(factory)) == left


def test_a_box_of_another_kind_does_not_use_it(factory: BoxFactory) -> None:
    start(factory).end()
    make_spares(factory)
    start(factory, ranks=2)
    assert factory.launcher.counts()["spares"] == 1
    make_spares(factory)
    # The one of the other kind was killed, and may take a moment to end.
    assert comes_true(lambda: len(spare_keepers(factory)) == 1, 30.0)
    (keeper,) = spare_keepers(factory)
    assert keeper_of(start(factory, ranks=2)) == keeper


def test_a_broken_spare_box_is_replaced(factory: BoxFactory) -> None:
    start(factory).end()
    make_spares(factory)
    (keeper,) = spare_keepers(factory)
    for pid in descendants(keeper):
        os.kill(pid, signal.SIGKILL)
    assert keeper_of(start(factory)) != keeper


def test_an_old_spare_box_is_ended(isolation: Isolation, factory: BoxFactory) -> None:
    launcher = ZygoteLauncher(imports=(), spare_s_max=0.2)
    old = BoxFactory(launcher, isolation, factory.folder)
    old.start_box(old.spec()).end()
    launcher.make_spares(1)
    assert comes_true(lambda: descendants(launcher.pid) == [])
    assert launcher.counts()["spares"] == 0
    old.close()
    launcher.close()


def test_a_killed_keeper_takes_its_spare_box_along(factory: BoxFactory) -> None:
    start(factory).end()
    make_spares(factory, 2)
    (keeper, _) = spare_keepers(factory)
    pids = [keeper, *descendants(keeper)]
    assert len(pids) >= 3
    os.kill(keeper, signal.SIGKILL)
    assert comes_true(lambda: factory.launcher.counts()["spares"] == 1)
    assert comes_true(lambda: all(map(is_gone, pids)))
    factory.launcher.clear()
    assert groups(pids) == []


def test_a_killed_zygote_takes_its_spare_boxes_along(
    isolation: Isolation, factory: BoxFactory
) -> None:
    launcher = ZygoteLauncher(imports=())
    own = BoxFactory(launcher, isolation, factory.folder)
    start(own).end()
    make_spares(own, 2)
    pids = descendants(launcher.pid)
    assert len(pids) >= 6
    os.kill(launcher.pid, signal.SIGKILL)
    assert comes_true(lambda: all(map(is_gone, pids)))
    assert comes_true(lambda: groups(pids) == [])
    own.close()
    launcher.close()


def spare_keepers(factory: BoxFactory) -> list[int]:
    """Return the keepers of the spare boxes, in the order in which they are used."""
    zygote = factory.launcher.pid
    used = [keeper_of(one) for one in factory.running_boxes if one.box.status(0.0) is None]
    children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text()
    return [pid for pid in map(int, children.split()) if pid not in used and not is_gone(pid)]
