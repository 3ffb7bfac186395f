"""The zygote: the process that imports once and forks every box; single-threaded, without secrets.

It forks a keeper for each requested box, and ends all of them. As a program, its arguments are its
socket, its parent's pid, and a JSON object.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import random
import secrets
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from harness.sandbox import bubblewrap, fork_entry, host, keeper, linux, walls
from harness.sandbox.box import (
    BoxSpec,
    close_descriptors,
    make_channel,
    receive_message,
    send_message,
    spec_from_json,
    spec_to_json,
)
from harness.sandbox.host import CgroupParents
from harness.sandbox.image import Image, ImageStore
from harness.sandbox.settings import replace_environment
from harness.sandbox.spare import SpareEntry, can_wait, spare_spec

_SHIFT_BYTES_MAX = 64 * 1024
_PAGES_MAX = 4096
_PAGE_BYTES = 4096
_STEP_BYTES = 64
_BLOCKS_MAX = 8
_SPARE_BUILT_S_MAX = 30.0


def prepare_worker(spec: BoxSpec) -> None:
    """Prepare a worker within its walls."""
    replace_environment(spec.environment)
    tempfile.tempdir = None
    _renew_randomness()


def prepare_spare_worker(spec: BoxSpec) -> None:
    """Prepare a worker of a spare box; with a GPU it also opens its context."""
    prepare_worker(spec)
    if spec.devices:
        cuda: Any = importlib.import_module("harness.worker.cuda")
        cuda.open_context()


def serve_fresh_worker(spec: BoxSpec, control: int) -> NoReturn:
    """Prepare a worker and serve the submission, then end this process in any case."""
    try:
        prepare_worker(spec)
    except BaseException:
        traceback.print_exc()
        raise
    serve_worker(spec, control)


def serve_worker(spec: BoxSpec, control: int) -> NoReturn:
    """Serve the submission on a control socket, then end this process in any case."""
    status = 1
    try:
        sys.argv[:] = [spec.path]
        server: Any = importlib.import_module("harness.worker.server")
        server.serve(control, spec.path)
        status = 0
    except SystemExit as system_exit:
        code = system_exit.code
        status = code if isinstance(code, int) else int(code is not None)
    except BaseException:  # noqa: BLE001  (any error belongs into the log)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status & 0xFF)


def _renew_randomness() -> None:
    """Reseed the generators and shift the heap; forks of one process would share both.

    The hash seed is fixed when an interpreter starts, so all boxes of one zygote share it; the
    supervisor is another program and does not.
    """
    random.seed()
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed(secrets.randbits(32))
    if torch := sys.modules.get("torch"):
        torch.manual_seed(secrets.randbits(63))
    # Never freed, so later small and large blocks have other addresses in every worker.
    libc = ctypes.CDLL(None)
    for size in range(_STEP_BYTES, _PAGE_BYTES, _STEP_BYTES):
        for _ in range(secrets.randbelow(_BLOCKS_MAX)):
            libc.malloc(ctypes.c_size_t(size))
    libc.malloc(ctypes.c_size_t(secrets.randbelow(_SHIFT_BYTES_MAX)))
    libc.malloc(ctypes.c_size_t(_SHIFT_BYTES_MAX * 4 + secrets.randbelow(_PAGES_MAX) * _PAGE_BYTES))


def _loaded_libraries() -> list[str]:
    """Return the libraries of this process, besides Python modules, which no fork loads again."""
    files = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    modules = {os.path.realpath(file) for file in files if file}
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = {f"/{line.partition('/')[2]}" for line in lines if ".so" in line}
    return sorted(path for path in paths - modules if Path(path).is_file())


def serve(descriptor: int, parent: int, options: dict[str, Any]) -> None:
    """Run the zygote's whole life, until its socket or its parent ends.

    Options: `imports`, the modules that every worker needs; `walls`, those that no box may lack;
    `end_s_max`, how long killed processes may take to end; `spare_s_max`, how long a spare box may
    wait.
    """
    linux.become_unreadable()
    linux.become_reaper()
    # Nobody reads a keeper's status, so the kernel reaps keepers.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent_pidfd = os.pidfd_open(parent)
    linux.die_with_parent(parent_pidfd)
    os.close(parent_pidfd)
    images = ImageStore(left_out=walls.left_out())
    if "image" in options["walls"]:
        # Another process finds or makes them while this one imports.
        images.begin(walls.shown_folders())
    # What is imported stays, so to look for garbage in it meanwhile is in vain.
    gc.disable()
    for name in (*options["imports"], "harness.worker.server"):
        importlib.import_module(name)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork of a process with threads is not safe"  # noqa: PTH208
    places = host.find_cgroup_parents()
    keeper.sweep_orphans(places)
    gc.collect()
    gc.freeze()
    gc.enable()
    linux.use_huge_pages()
    images.loaded = _loaded_libraries()
    client, required = socket.socket(fileno=descriptor), set(options["walls"])
    server = _ZygoteServer(client, places, required, images, options)
    while server.answer():
        continue
    server.end_spares()
    server.clear()


@dataclass(frozen=True)
class _Spare:
    """A box that waits for its use: what it is built for, its keeper, and the keeper's channel."""

    spec: BoxSpec
    pid: int
    pidfd: int
    channel: socket.socket
    ends_at: float


class _ZygoteServer:
    def __init__(
        self,
        client: socket.socket,
        places: CgroupParents,
        walls: set[str],
        images: ImageStore,
        options: dict[str, Any],
    ) -> None:
        self._client = client
        self._places = places
        self._walls = walls
        self._images = images
        self._end_s_max: float = options["end_s_max"]
        self._spare_s_max: float = options["spare_s_max"]
        self._keepers: set[int] = set()
        self._spares: list[_Spare] = []
        self._unbuilt: list[_Spare] = []
        # What the box that was started last has in common with a spare one.
        self._wanted: BoxSpec | None = None
        self._own_pidfd = os.pidfd_open(os.getpid())

    def answer(self) -> bool:
        """Handle one request or the end of keepers; False when no request will come."""
        client = self._client.fileno()
        ends_at = min((spare.ends_at for spare in self._spares), default=None)
        left_s = None if ends_at is None else max(0.0, ends_at - time.monotonic())
        ready, _, _ = select.select([client, *self._keepers], [], [], left_s)
        self._remove_keepers(self._keepers & set(ready))
        now = time.monotonic()
        self._end_spares(lambda spare: spare.ends_at <= now)
        if client not in ready:
            return True
        if (received := receive_message(self._client)) is None:
            return False
        request, descriptors = received
        reply, reply_descriptors = self._handle_request(request, descriptors)
        close_descriptors(descriptors)
        with contextlib.suppress(OSError):
            message = {"token": request["token"], **reply}
            send_message(self._client, message, reply_descriptors)
        return True

    def clear(self) -> bool:
        """End every box but spare ones; False if something could not be killed."""
        ends_at = time.monotonic() + self._end_s_max
        spares = {spare.pidfd for spare in self._spares}
        for pidfd in self._keepers - spares:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        while used := self._keepers - spares:
            left_s = max(0, ends_at - time.monotonic())
            ready, _, _ = select.select([*used], [], [], left_s)
            if not ready:
                break
            self._remove_keepers(set(ready))
        # Processes that escaped their keeper are children of this process by now.
        known = [spare.pid for spare in self._spares]
        is_clear = linux.end_others(known, self._end_s_max)
        keeper.sweep_orphans(self._places)
        return is_clear

    def end_spares(self) -> None:
        """End the spare boxes; `clear` then waits for their end."""
        self._end_spares(lambda _: True)

    def _handle_request(
        self, request: dict[str, Any], descriptors: list[int]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        if "start" in request:
            return self._start(spec_from_json(request["start"]), request["way"], descriptors)
        if "clear" in request:
            return {"is_clear": self.clear()}, ()
        if "spares" in request:
            # Without a spare box, the next box is built when it is needed.
            with contextlib.suppress(OSError):
                self._make_spares(request["spares"])
            return {}, ()
        if "settle" in request:
            return {"spares": self._settle_spares()}, ()
        counts = {
            "descriptors": len(list(Path("/proc/self/fd").iterdir())),
            "boxes": len(self._keepers) - len(self._spares),
            "processes": len(linux.descendants(os.getpid())),
            "spares": len(self._spares),
        }
        return {"counts": counts}, ()

    def _start(
        self, spec: BoxSpec, entry: str, descriptors: list[int]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        if missing := self._walls - set(spec.walls):
            return {"fault": f"a box without {', '.join(sorted(missing))} is not built here"}, ()
        if entry == "fork":
            self._wanted = spare_spec(spec)
            if (spare := self._assign_spare(spec, descriptors)) is not None:
                return {"pid": spare.pid, "is_spare": True}, (spare.pidfd,)
        try:
            images = self._find_images(spec)
            pid = os.fork()
        except OSError as error:
            return {"fault": f"a box could not be started: {error}"}, ()
        if pid == 0:
            self._run_keeper(spec, entry, images, descriptors)
        pidfd = os.pidfd_open(pid)
        self._keepers.add(pidfd)
        return {"pid": pid}, (pidfd,)

    def _assign_spare(self, spec: BoxSpec, descriptors: list[int]) -> _Spare | None:
        """Give a box to a spare one that fits; None if there is none."""
        self._settle_spares()
        spare = next((box for box in self._spares if box.spec == self._wanted), None)
        if spare is None:
            return None
        self._spares.remove(spare)
        report, *others = descriptors
        try:
            folder = os.open(spec.submission, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            # The box that is built instead reports it.
            spare.channel.close()
            return None
        with spare.channel, contextlib.suppress(OSError):
            message = {"assign": spec_to_json(spec)}
            send_message(spare.channel, message, [report, folder, *others])
        os.close(folder)
        return spare

    def _make_spares(self, count: int) -> None:
        """Begin to make spare boxes like the last box, until there are this many of them."""
        spec = self._wanted
        if spec is None or not can_wait(spec):
            return
        self._end_spares(lambda spare: spare.spec != spec)
        for spare in self._spares[count:]:
            self._end_spare(spare)
        for _ in range(count - len(self._spares)):
            images = self._find_images(spec)
            own_end, keeper_end = make_channel()
            pid = os.fork()
            if pid == 0:
                own_end.close()
                self._run_spare_keeper(spec, images, keeper_end)
            keeper_end.close()
            pidfd = os.pidfd_open(pid)
            self._keepers.add(pidfd)
            spare = _Spare(spec, pid, pidfd, own_end, time.monotonic() + self._spare_s_max)
            self._spares.append(spare)
            self._unbuilt.append(spare)

    def _settle_spares(self) -> int:
        """Wait until each spare box is built or has failed; return how many there are."""
        ends_at = time.monotonic() + _SPARE_BUILT_S_MAX
        for spare in self._unbuilt:
            if spare not in self._spares:
                continue
            left_s = max(0.0, ends_at - time.monotonic())
            is_told = bool(select.select([spare.channel], [], [], left_s)[0])
            received = receive_message(spare.channel) if is_told else None
            if received is None or "built" not in received[0]:
                self._end_spare(spare)
        self._unbuilt.clear()
        return len(self._spares)

    def _end_spares(self, is_unwanted: Callable[[_Spare], bool]) -> None:
        for spare in [box for box in self._spares if is_unwanted(box)]:
            self._end_spare(spare)

    def _end_spare(self, spare: _Spare) -> None:
        """End a spare box: its keeper sees the end of the channel."""
        self._spares.remove(spare)
        spare.channel.close()

    def _run_spare_keeper(
        self, spec: BoxSpec, images: dict[str, Image], client: socket.socket
    ) -> NoReturn:
        try:
            os.setsid()
            linux.die_with_parent(self._own_pidfd, signal.SIGTERM)
            attendant, keeper_end = make_channel()
            entry = SpareEntry(spec, images, keeper_end, prepare_spare_worker, serve_worker)
            keeper.run_keeper(spec, client, self._places, entry, attendant)
        finally:
            os._exit(1)

    def _find_images(self, spec: BoxSpec) -> dict[str, Image]:
        if "image" not in spec.walls:
            return {}
        return self._images.find(walls.shown_folders(spec.read_only))

    def _run_keeper(
        self, spec: BoxSpec, entry: str, images: dict[str, Image], descriptors: list[int]
    ) -> NoReturn:
        try:
            os.setsid()
            linux.die_with_parent(self._own_pidfd, signal.SIGTERM)
            report, output, *controls = descriptors
            client = socket.socket(fileno=report)
            workers = fork_entry.BoxWorkers(
                controls, output, client, lambda control: serve_fresh_worker(spec, control)
            )
            make_entry = bubblewrap.choose_box_entry if entry == "exec" else fork_entry.ForkEntry
            keeper.run_keeper(spec, client, self._places, make_entry(spec, workers, images))
        finally:
            # Whatever happens, a fork must never return into its parent's loop.
            os._exit(1)

    def _remove_keepers(self, ended: set[int]) -> None:
        self._keepers -= ended
        self._end_spares(lambda spare: spare.pidfd in ended)
        close_descriptors(list(ended))


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
