"""The harness code: reproducible wherever it is packed, and sufficient to run."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness import code
from harness.code import HARNESS_FOLDER, pack_harness

LINES = """
import sys
sys.path.insert(0, sys.argv[1])
from harness import code, entry
print(code.HARNESS_FOLDER, entry.VERSION, entry.environment()["harness_code"])
"""


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_same_files_are_the_same_bytes_wherever_and_whenever_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(HARNESS_FOLDER, tmp_path / "harness")
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))
        if path.is_file():
            path.chmod(0o600)
    (copy / "__pycache__").mkdir(exist_ok=True)
    for name in ("__pycache__/run.cpython-311.pyc", ".run.py.swp", "worker/.hidden"):
        (copy / name).write_bytes(b"no code")
    monkeypatch.chdir(tmp_path)
    assert pack_harness(copy) == pack_harness() == pack_harness()
    assert code.digest() == digest_of(pack_harness())


@pytest.mark.parametrize("name", ["time/policy.py", "devices/cuda/kernels/gate.cu", "py.typed"])
def test_another_byte_in_any_file_is_another_code(name: str, tmp_path: Path) -> None:
    copy = shutil.copytree(HARNESS_FOLDER, tmp_path / "harness")
    with (copy / name).open("ab") as file:
        file.write(b"\n")
    assert pack_harness(copy) != pack_harness()


def test_what_could_be_imported_beside_the_sources_is_code_too(tmp_path: Path) -> None:
    copy = shutil.copytree(HARNESS_FOLDER, tmp_path / "harness")
    (copy / "time" / "native.so").write_bytes(b"")
    assert pack_harness(copy) != pack_harness()


def test_unpacked_it_is_the_package_itself_and_says_the_same_of_itself(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(pack_harness())) as found:
        found.extractall(tmp_path)
        names = found.namelist()
        assert {one.compress_type for one in found.infolist()} == {zipfile.ZIP_STORED}
    mine = [
        one
        for one in HARNESS_FOLDER.rglob("[!.]*")
        if one.is_file() and "__pycache__" not in one.parts
    ]
    assert (
        sorted(names)
        == names
        == sorted(f"harness/{one.relative_to(HARNESS_FOLDER)}" for one in mine)
    )
    for path in mine:
        assert (
            tmp_path / "harness" / path.relative_to(HARNESS_FOLDER)
        ).read_bytes() == path.read_bytes()
    command = [sys.executable, "-I", "-B", "-c", LINES, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    where, version, digest = ran.stdout.split()
    assert (Path(where), digest) == (tmp_path / "harness", digest_of(pack_harness()))
    assert version == "2"
