"""What the tests of the sandbox are given."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.sandbox.executed import Executed
from harness.sandbox.forked import Forked
from harness.sandbox.probe import Isolation, probe

from .visit import Lodge

collect_ignore = ["disguise", "guests"]
_KINDS = {"zygote": Forked, "bubblewrap": Executed}


@pytest.fixture(scope="session")
def isolation() -> Isolation:
    """What this machine can build."""
    return probe()


@pytest.fixture(scope="session")
def zygote() -> Iterator[Forked]:
    """A zygote that stays warm from test to test."""
    launcher = Forked()
    yield launcher
    launcher.close()


@pytest.fixture(
    scope="session", params=["zygote", pytest.param("bubblewrap", marks=pytest.mark.long)]
)
def launcher(request: pytest.FixtureRequest, isolation: Isolation) -> Iterator[Forked]:
    """Each of the two launchers in turn."""
    if request.param == "bubblewrap" and not isolation.has_bubblewrap:
        pytest.skip(f"no bubblewrap: {isolation.launchers[0].mend}")
    launcher = _KINDS[request.param]()
    yield launcher
    launcher.close()


@pytest.fixture(scope="session")
def shelf() -> Iterator[Path]:
    """A folder that a worker of another user can pass; pytest's own is closed to it."""
    with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def lodge(launcher: Forked, isolation: Isolation, shelf: Path) -> Iterator[Lodge]:
    """Where visits are made, by each of the two launchers."""
    yield from _lodge(launcher, isolation, shelf)


@pytest.fixture
def inn(zygote: Forked, isolation: Isolation, shelf: Path) -> Iterator[Lodge]:
    """Where visits are made by the zygote alone, for what both launchers share."""
    yield from _lodge(zygote, isolation, shelf)


def _lodge(launcher: Forked, isolation: Isolation, shelf: Path) -> Iterator[Lodge]:
    folder = Path(tempfile.mkdtemp(dir=shelf))
    folder.chmod(0o755)
    lodge = Lodge(launcher, isolation, folder)
    yield lodge
    lodge.close()
