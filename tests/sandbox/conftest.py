"""Fixtures of the sandbox tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.sandbox.bubblewrap import BubblewrapLauncher
from harness.sandbox.launcher import ZygoteLauncher
from harness.sandbox.probe import Isolation, probe_isolation

from .boxes import BoxFactory

collect_ignore = ["disguise", "submissions"]


@pytest.fixture(scope="session")
def isolation() -> Isolation:
    """What this machine can build."""
    return probe_isolation()


@pytest.fixture(scope="session")
def zygote() -> Iterator[ZygoteLauncher]:
    """A zygote that stays warm from test to test."""
    launcher = ZygoteLauncher()
    yield launcher
    launcher.close()


@pytest.fixture(
    scope="session", params=["zygote", pytest.param("bubblewrap", marks=pytest.mark.long)]
)
def launcher(request: pytest.FixtureRequest, isolation: Isolation) -> Iterator[ZygoteLauncher]:
    """Each of the two launchers in turn."""
    if request.param == "zygote":
        yield request.getfixturevalue("zygote")
        return
    if not isolation.has_bubblewrap:
        pytest.skip(f"no bubblewrap: {isolation.launchers[0].fix}")
    launcher = BubblewrapLauncher()
    yield launcher
    launcher.close()


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that a worker of another user can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def box_factory(
    launcher: ZygoteLauncher, isolation: Isolation, open_folder: Path
) -> Iterator[BoxFactory]:
    """Starts boxes with each of the two launchers, for what both do themselves.

    A box of bubblewrap imports torch, which takes more than a second.
    """
    yield from _make_box_factory(launcher, isolation, open_folder)


@pytest.fixture
def zygote_box_factory(
    zygote: ZygoteLauncher, isolation: Isolation, open_folder: Path
) -> Iterator[BoxFactory]:
    """Starts boxes with the zygote alone, for what both launchers share."""
    yield from _make_box_factory(zygote, isolation, open_folder)


def _make_box_factory(
    launcher: ZygoteLauncher, isolation: Isolation, open_folder: Path
) -> Iterator[BoxFactory]:
    folder = Path(tempfile.mkdtemp(dir=open_folder))
    folder.chmod(0o755)
    box_factory = BoxFactory(launcher, isolation, folder)
    yield box_factory
    box_factory.close()
