"""Build results are kept from run to run; and how native submissions end."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.build import command
from tests.harness.test_forms import MODEL, NEW
from tests.support.harness import HONEST, Host, Warm

from .builds import CPP

pytestmark = [pytest.mark.box, pytest.mark.long]

COPY = CPP.replace("x[i] + 1", "x[i]")
INLINE = """\
from torch.utils.cpp_extension import load_inline
SOURCE = 'extern "C" void add(float *y) { *y += 1; }'
load_inline("fixed", SOURCE, no_implicit_headers=True, is_python_module=False)
print(open("/scratch/cache/fixed/.ninja_log").read())
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Warm, Path]]:
    """A harness that keeps build results, and its cache folder."""
    if shutil.which("g++", path=command.search_path()) is None:
        pytest.skip("g++ is not installed")
    folder = tmp_path_factory.mktemp("state")
    warm = Warm(state=str(folder))
    yield warm, folder
    warm.close()


@pytest.fixture
def host(tmp_path: Path, kept: tuple[Warm, Path]) -> Host:
    """A host that runs native submissions against a small problem."""
    return Host(tmp_path, kept[0])


def _entries(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "compiled").iterdir()}


@pytest.mark.parametrize(
    ("source", "verdict", "text"),
    [
        (COPY.replace("return 0", "return 5"), "crashed", "custom_kernel returned 5"),
        ('asm(".incbin \\"/etc/shadow\\"");\n' + COPY, "compile_error", "not found: /etc/shadow"),
        ("int other;\n", "import_error", 'defines no extern "C" custom_kernel'),
    ],
)
def test_a_native_submission_fails_with_its_own_verdict(
    host: Host, source: str, verdict: str, text: str
) -> None:
    report = host.run(source, suffix=".cpp")
    assert (report.verdict, report.failure_code) == (verdict, "")
    assert text in report.reason


def test_a_native_submission_is_built_once(host: Host, kept: tuple[Warm, Path]) -> None:
    first = host.run(COPY, suffix=".cpp")
    entries = _entries(kept[1])
    again = host.run(COPY, suffix=".cpp")
    assert (first.verdict, again.verdict) == ("passed", "passed")
    assert _entries(kept[1]) == entries
    assert again.usage["cpu_s"] < first.usage["cpu_s"]


@pytest.mark.usefixtures("gxx")
def test_a_native_submission_is_built_without_namespaces(tmp_path: Path) -> None:
    state = tmp_path / "state"
    warm = Warm(state=str(state), level="none")
    host = Host(tmp_path, warm)
    assert host.run(COPY, suffix=".cpp").verdict == "passed"
    entries = _entries(state)
    assert host.run(COPY, suffix=".cpp").verdict == "passed"
    assert len(entries) == 1
    assert _entries(state) == entries
    warm.close()


def test_an_extension_is_compiled_in_the_first_run_alone(host: Host) -> None:
    if shutil.which("ninja", path=command.search_path()) is None:
        pytest.skip("ninja is not installed: load_inline needs it")
    first, second = (host.run(INLINE + HONEST, suffix=".py") for _ in "12")
    assert (first.verdict, second.verdict) == ("passed", "passed"), first.reason
    # A CUDA build of torch warns of the absent GPU before, with the time.
    _, begun, log = second.log_head.partition("# ninja log")
    assert begun
    assert log.strip() in first.log_head


def test_a_model_with_an_extension_is_found_by_the_builder_too(host: Host) -> None:
    if shutil.which("ninja", path=command.search_path()) is None:
        pytest.skip("ninja is not installed: load_inline needs it")
    cases = [{"name": "case", "args": {}}]
    host.told_besides = {"tests": cases, "benchmarks": cases, "form": "kernelbench", "calls": 3}
    host.files["reference.py"] = MODEL
    report = host.run(INLINE + NEW, suffix=".py")
    assert report.verdict == "passed", report.reason
