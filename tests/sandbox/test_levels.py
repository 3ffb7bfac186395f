"""Lesser machines, made out of this one: the level is said, and its walls hold all the same."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from harness.sandbox.probe import Isolation

pytestmark = [pytest.mark.long, pytest.mark.box]

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 500
ASKED = tuple(f"tests/sandbox/{name}.py" for name in ("test_walls", "test_box", "test_network"))
# At these levels the second launcher is asked for its walls alone.
CHOSEN = "zygote or walls or test_network"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: nobody else can be played")


def disguised(*disguises: str, command: list[str], **environment: str) -> str:
    """What a Python command prints in these disguises, the first of which is put on first."""
    wrapped = [sys.executable, *command]
    for disguise in reversed(disguises):
        wrapped = [sys.executable, "-m", f"tests.sandbox.disguise.{disguise}", *wrapped]
    done = subprocess.run(
        wrapped,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def skip_if_closed(*disguises: str) -> None:
    """Skip a test that plays another user if other users cannot enter the checkout's folder."""
    if not {"user", "walled_user"} & set(disguises):
        return
    closed = [folder for folder in (ROOT, *ROOT.parents) if not folder.stat().st_mode & 0o001]
    if closed:
        mode = closed[-1].stat().st_mode & 0o777
        pytest.skip(
            f"{closed[-1]} has mode {mode:04o}: other users cannot enter it, so this test cannot "
            "play one; run the tests from another folder, or chmod o+x this one"
        )


def seen(*disguises: str) -> Isolation:
    """What a disguised process finds that it can build."""
    skip_if_closed(*disguises)
    found = disguised(*disguises, command=["-m", "harness.sandbox.probe"])
    return msgspec.json.decode(found, type=Isolation)


@needs_root
def test_an_ordinary_user_makes_medium_and_is_told_why() -> None:
    found = seen("user")
    assert found.level == "medium"
    assert {one.wall for one in found.missing} == {"uid", "memory", "pids", "freezer"}
    assert all("as root" in one.fix for one in found.missing)


@needs_root
def test_a_pod_makes_weak_and_is_told_why() -> None:
    found = seen("pod")
    assert found.level == "weak"
    assert {one.wall for one in found.missing} == {"namespaces", "image"}
    for missing in found.missing:
        assert "Operation not permitted" in missing.reason
        assert "--cap-add SYS_ADMIN" in missing.fix


@needs_root
def test_a_pod_of_an_ordinary_user_makes_none() -> None:
    found = seen("pod", "user")
    assert found.level == "none"
    assert {one.wall for one in found.missing} >= {"namespaces", "uid"}


@needs_root
def test_a_closed_home_above_the_interpreter_is_named() -> None:
    topmost = Path("/", Path(sys.base_prefix).resolve().parts[1])
    if topmost.stat().st_mode & 0o005 == 0o005:
        pytest.skip("this interpreter can be reached by everybody")
    found = seen("closed_pod")
    (missing,) = [one for one in found.missing if one.wall == "uid"]
    assert "cannot reach" in missing.reason
    assert "chmod o+x" in missing.fix
    assert found.level == "none"


@needs_root
@pytest.mark.timeout(LIMIT_S + 10)
@pytest.mark.parametrize(("disguise", "level"), [("user", "medium"), ("pod", "weak")])
def test_the_walls_of_a_lesser_level_hold(disguise: str, level: str) -> None:
    skip_if_closed(disguise)
    asked = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", CHOSEN, *ASKED]
    told = disguised(disguise, command=asked, TEST_LEVEL=level)
    assert "passed" in told
