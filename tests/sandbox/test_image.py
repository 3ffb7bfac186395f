"""Images of folders: what they show, how long they stay, and what a box sees of them."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.sandbox import fork_entry, image, linux
from harness.sandbox.box import BoxSpec, Limits
from harness.sandbox.image import Image, ImageStore
from harness.sandbox.probe import Isolation

from .boxes import BoxFactory
from .forks import in_a_fork

SPEC = BoxSpec((), Limits(), submission="", main="")
FAR_PAST_S = 1_000_000_000
TWO_DAYS_S = 2 * 24 * 3600


@pytest.fixture(autouse=True)
def _needs_images(isolation: Isolation) -> None:
    if "image" not in isolation.walls:
        pytest.skip(next(one.reason for one in isolation.missing if one.wall == "image"))


@pytest.fixture
def store() -> Iterator[str]:
    """Where a test's images are."""
    with tempfile.TemporaryDirectory(dir=image.PARENT) as folder:
        yield f"{folder}/store"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with a file of each kind."""
    folder = tmp_path / "a folder, with: all"
    (folder / "below" / "deeper").mkdir(parents=True)
    (folder / "below" / "file").write_text("content")
    (folder / "below" / "program").write_text("#!/bin/sh\necho run\n")
    (folder / "below" / "program").chmod(0o755)
    (folder / "closed").write_text("closed")
    (folder / "closed").chmod(0o400)
    (folder / "link").symlink_to("below/file")
    (folder / "left out").mkdir()
    (folder / "left out" / "file").write_text("unseen")
    (folder / "left out").chmod(0o555)
    os.utime(folder / "below" / "file", (FAR_PAST_S, FAR_PAST_S))
    os.utime(folder / "below", (FAR_PAST_S, FAR_PAST_S))
    return folder


def shown(found: Image, look: Callable[[Path], Any]) -> Any:
    """What somebody sees in an image who mounts it."""
    return in_a_fork(
        lambda: look(Path(fork_entry.mount_images(SPEC, {found.source: found})[found.source]))
    )


def made(store: str, source: Path, *left_out: str) -> Image:
    """The image of a folder."""
    return ImageStore(store, left_out).find([str(source)])[str(source)]


def test_an_image_shows_names_attributes_and_content(store: str, source: Path) -> None:
    def look(place: Path) -> list[Any]:
        file, closed = place / "below" / "file", place / "closed"
        return [
            sorted(one.name for one in place.iterdir()),
            file.read_text(),
            (place / "link").read_text(),
            [int(one.stat().st_mtime) for one in (file, file.parent)],
            [file.stat().st_size, oct(closed.stat().st_mode & 0o777)],
            subprocess.check_output([place / "below" / "program"], text=True),
        ]

    assert shown(made(store, source), look) == [
        ["below", "closed", "left out", "link"],
        "content",
        "content",
        [FAR_PAST_S, FAR_PAST_S],
        [7, "0o400"],
        "run\n",
    ]


def test_an_image_is_made_again_if_the_process_that_makes_it_is_ended(
    store: str, source: Path
) -> None:
    # As what ends all processes of a zygote's between two runs may do.
    Path(store).mkdir(mode=0o700)
    lock = os.open(store, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    images, before = ImageStore(store, ()), set(linux.descendants(os.getpid()))
    images.begin([str(source)])
    (maker,) = set(linux.descendants(os.getpid())) - before
    os.kill(maker, signal.SIGKILL)
    os.waitpid(maker, 0)
    os.close(lock)
    found = images.find([str(source)])[str(source)]
    assert shown(found, lambda place: (place / "below" / "file").read_text()) == "content"


def test_an_image_cannot_be_written(store: str, source: Path) -> None:
    found = shown(made(store, source), lambda place: (place / "new").touch())
    assert "Read-only" in found


def test_a_folder_that_is_left_out_is_empty(store: str, source: Path) -> None:
    found = made(store, source, f"{source}/left out")
    assert shown(found, lambda place: os.listdir(place / "left out")) == []  # noqa: PTH208
    assert shown(made(store, source), lambda place: (place / "left out/file").read_text())


def test_a_mount_below_a_folder_is_shown(store: str, source: Path) -> None:
    def look() -> list[str]:
        fork_entry.mount_images(SPEC, {})  # A mount namespace of its own.
        subprocess.check_call(["mount", "-t", "tmpfs", "tmpfs", source / "below/deeper"])  # noqa: S607
        (source / "below/deeper/mounted").touch()
        subprocess.check_call(["mount", "--bind", source / "closed", source / "below/file"])  # noqa: S607
        found = made(store, source)
        place = Path(fork_entry.mount_images(SPEC, {str(source): found})[str(source)])
        return [*os.listdir(place / "below/deeper"), (place / "below/file").read_text()]  # noqa: PTH208

    if os.geteuid() != 0:
        pytest.skip("not root, who alone mounts without further ado")
    assert in_a_fork(look) == ["mounted", "closed"]


def test_an_image_is_made_once_until_its_folder_changes(store: str, source: Path) -> None:
    first, second = made(store, source), made(store, source)
    assert first == second
    (source / "below" / "file").write_text("longer content")
    changed = made(store, source)
    assert changed != first
    assert shown(changed, lambda place: (place / "below/file").stat().st_size) == 14


def test_compiled_files_do_not_make_a_new_image(store: str, source: Path) -> None:
    first = made(store, source)
    (source / "below" / "__pycache__").mkdir()
    (source / "below" / "__pycache__" / "file.pyc").touch()
    assert made(store, source) == first


def test_an_image_stays_as_long_as_somebody_holds_it(store: str, source: Path) -> None:
    def hold_and_change() -> list[bool]:
        held = made(store, source)
        (source / "new").touch()
        other = in_a_fork(lambda: made(store, source).files)
        return [Path(path).exists() for path in (held.files, other)]

    assert in_a_fork(hold_and_change) == [True, True]
    (source / "newer").touch()
    found = in_a_fork(lambda: made(store, source).files)
    assert [str(one / "files") for one in Path(store).iterdir()] == [found]


def test_an_image_that_nobody_has_used_for_a_day_is_removed(store: str, source: Path) -> None:
    old = Path(in_a_fork(lambda: made(store, source).files)).parent
    in_a_fork(lambda: made(store, source / "below").files)
    assert old.exists()
    os.utime(old, (old.stat().st_atime, old.stat().st_mtime - TWO_DAYS_S))
    in_a_fork(lambda: made(store, source / "below").files)
    assert not old.exists()


def test_half_an_image_is_made_again(store: str, source: Path) -> None:
    whole = Path(in_a_fork(lambda: made(store, source).files))
    (whole.parent / "complete").unlink()
    (whole / "closed").unlink()
    assert made(store, source).files == str(whole)
    assert (whole / "closed").exists()


def test_a_store_that_others_may_change_is_refused(store: str, source: Path) -> None:
    Path(store).mkdir()
    Path(store).chmod(0o770)
    with pytest.raises(OSError, match="belongs to another user"):
        made(store, source)


def test_a_store_that_remembers_missing_names_is_refused(tmp_path: Path, source: Path) -> None:
    with pytest.raises(OSError, match="is not a tmpfs"):
        made(f"{tmp_path}/store", source)


def test_a_box_loads_no_second_copy_of_a_library(zygote_box_factory: BoxFactory) -> None:
    running_box = zygote_box_factory.start_box(
        zygote_box_factory.spec(
            "import ctypes, glob, os\n"
            "for name in ('libc.so.6', 'libstdc++.so.6'):\n"
            "    for path in glob.glob(f'/usr/lib/*-linux-gnu/{name}'):\n"
            "        ctypes.CDLL(path)\n"
            "lines = [line.split() for line in open('/proc/self/maps')]\n"
            "for name in ('libc.so', 'libstdc++.so'):\n"
            "    print(len({line[4] for line in lines if name in line[-1]}))\n"
            "def custom_kernel(data): return data\n"
        )
    )
    running_box.answer()
    running_box.end()
    assert running_box.printed().split() == ["1", "1"]


def test_without_images_of_its_own_a_box_still_starts(zygote_box_factory: BoxFactory) -> None:
    walls = zygote_box_factory.isolation.minus(["image"]).walls
    running_box = zygote_box_factory.start_box(zygote_box_factory.spec(walls=walls))
    assert running_box.answer() == b"R"
    assert running_box.end()


def test_an_interpreter_in_a_box_finds_its_modules_compiled(zygote_box_factory: BoxFactory) -> None:
    """A compiled module counts only if the times of its source are the machine's."""
    running_box = zygote_box_factory.start_box(
        zygote_box_factory.spec(
            "import importlib.util, os, json.decoder\n"
            "path = json.decoder.__file__\n"
            "compiled = open(importlib.util.cache_from_source(path), 'rb').read(16)\n"
            "status = os.stat(path)\n"
            "times = [int.from_bytes(compiled[8:12], 'little'), int(status.st_mtime)]\n"
            "print(times[0] == times[1])\n"
            "def custom_kernel(data): return data\n"
        )
    )
    running_box.answer()
    running_box.end()
    compiled = subprocess.run(
        [sys.executable, "-c", "import json.decoder as d; print(d.__cached__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    if Path(compiled.stdout.strip()).exists():
        assert running_box.printed().strip() == "True"
