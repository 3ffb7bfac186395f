"""The images install exactly the packages of their locks; a linter finds nothing in their files."""

import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from web.build import INSTALL_OPTIONS, PACKAGES_S, BuildError, find_node, run

from tests.support.platform import ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
LINT_S_MAX = 60
COMPOSE = DEPLOY / "compose.yaml"
LINT = Path(__file__).parent / "lint"


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    """The script that writes the locks."""
    spec = spec_from_file_location("lock", DEPLOY / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_locks_have_every_requirement_at_its_version(lock: ModuleType) -> None:
    for image in lock.IMAGES:
        assert list(lock.find_stale(image)) == [], "run python deploy/lock.py"


def test_a_lock_that_lacks_a_package_or_has_another_version_is_stale(
    lock: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = lock.lock_path("platform").read_text()
    damaged = re.sub(r"(?m)^fastapi==\S+", "fastapi==0.1", text).replace("httpx==", "httpy==")
    (tmp_path / "platform.lock").write_text(damaged)
    monkeypatch.setattr(lock, "lock_path", lambda image: tmp_path / f"{image}.lock")
    problems = list(lock.find_stale("platform"))
    assert "platform.lock lacks httpx" in problems
    assert any(problem.startswith("platform.lock has fastapi 0.1,") for problem in problems)


def test_every_package_of_a_lock_has_hashes(lock: ModuleType) -> None:
    for image in lock.IMAGES:
        text = lock.lock_path(image).read_text()
        for block in re.split(r"(?m)^(?=[\w])", text)[1:]:
            assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block


def test_the_parts_of_the_images_are_those_of_their_locks(lock: ModuleType) -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    for image, parts in lock.IMAGES.items():
        stage = text.partition(f" AS {image}\n")[2].partition("\nFROM ")[0]
        (command,) = re.findall(
            r"pip install --no-deps --no-build-isolation ((?:.|\\\n)*?)&&", stage
        )
        installed = set(re.findall(r"\./(\S+)", command))
        assert installed == {part.partition("[")[0] for part in parts}


def test_the_base_is_chosen_by_its_digest() -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    bases = re.findall(r"^FROM (\S+:\S+)", text, re.MULTILINE)
    assert bases
    assert all(re.search(r":\d+\.\d+\.\d+.*@sha256:[0-9a-f]{64}$", base) for base in bases)
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)


def test_hadolint_finds_nothing() -> None:
    beside = Path(sys.executable).with_name("hadolint")
    program = str(beside) if beside.exists() else shutil.which("hadolint")
    if program is None:
        pytest.skip("NOT RUN: no hadolint here; make install")
    done = subprocess.run(
        [program, "--no-color", str(DOCKERFILE)],
        capture_output=True,
        text=True,
        timeout=LINT_S_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture(scope="module")
def dclint(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the linter for Compose, installed as `lint` pins it."""
    folder = tmp_path_factory.mktemp("dclint")
    for name in (".npmrc", "package.json", "package-lock.json"):
        shutil.copy(LINT / name, folder)
    try:
        node, npm = find_node()
        run("npm ci", [node, npm, "ci", *INSTALL_OPTIONS], folder, PACKAGES_S)
    except BuildError as error:
        pytest.skip(f"NOT RUN: dclint cannot be installed: {error}")
    # By its script, since the node of PyPI is not on the path.
    program = folder / "node_modules" / "dclint" / "bin" / "dclint.cjs"
    return [node, str(program), "--max-warnings", "0", "--config", str(LINT / "dclint.yml")]


def lint_compose(dclint: list[str], file: Path) -> tuple[int, str]:
    """Return the exit code of the linter for a file, and what it prints."""
    done = subprocess.run(
        [*dclint, str(file)], capture_output=True, text=True, timeout=LINT_S_MAX, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
def test_the_linter_for_compose_finds_nothing(dclint: list[str], tmp_path: Path) -> None:
    assert lint_compose(dclint, COMPOSE) == (0, "\n")
    unpinned = tmp_path / "compose.yaml"
    unpinned.write_text(COMPOSE.read_text(encoding="utf-8").replace("nats:2.15.1", "nats"))
    code, said = lint_compose(dclint, unpinned)
    assert (code, "service-image-require-explicit-tag" in said) == (1, True)
