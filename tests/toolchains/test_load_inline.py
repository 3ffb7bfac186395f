"""A C++ extension is compiled once: later boxes load what the first one packed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.build import command
from harness.worker.submission import pack_built, unpack_built

pytestmark = pytest.mark.box

# Without torch's headers, which take half a minute to read.
SUBMISSION = """\
from torch.utils.cpp_extension import load_inline
SOURCE = 'extern "C" void add(float *y, long n) { for (long i = 0; i < n; i++) y[i] += 1; }'
load_inline("fixed", SOURCE, no_implicit_headers=True, is_python_module=False)
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A box's scratch folder; the next box's must have the same name."""
    if shutil.which("ninja", path=command.search_path()) is None:
        pytest.skip("ninja is not installed: load_inline needs it")
    return tmp_path / "scratch"


def _imported(scratch: Path, source: str) -> None:
    scratch.mkdir(exist_ok=True)
    (scratch / "submission.py").write_text(source)
    told = {"HOME": str(scratch), "TORCH_EXTENSIONS_DIR": str(scratch / "cache")}
    line = [sys.executable, "-W", "ignore", str(scratch / "submission.py")]
    environment = {**command.compiler_environment(), **told}
    subprocess.run(line, check=True, timeout=100, env=environment, cwd=scratch)


@pytest.mark.long
@pytest.mark.usefixtures("gxx")
def test_a_packed_extension_is_not_compiled_again(scratch: Path, memory: int) -> None:
    _imported(scratch, SUBMISSION)
    assert pack_built(str(scratch / "cache"), memory)
    library = scratch / "cache/fixed/fixed.so"
    first = library.stat()
    shutil.rmtree(scratch)

    unpack_built(memory, str(scratch / "cache"))
    log = (scratch / "cache/fixed/.ninja_log").read_bytes()
    _imported(scratch, SUBMISSION)
    again = library.stat()
    assert again.st_mtime_ns == first.st_mtime_ns
    assert (scratch / "cache/fixed/.ninja_log").read_bytes() == log
    assert list((scratch / "cache").iterdir()) == [scratch / "cache/fixed"]
