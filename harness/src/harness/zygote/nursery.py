"""Forks a keeper for each box that is asked for, and sees all of them off."""

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from harness.sandbox import (
    cgroup,
    cgroup_places,
    channel,
    executed,
    interpreter,
    jail,
    keeper,
    linux,
    processes,
)
from harness.sandbox.cgroup_places import Places
from harness.sandbox.spec import Spec, from_json
from harness.zygote import birth


def serve(descriptor: int, parent: int, options: dict[str, Any]) -> None:
    """The zygote's whole life, until its socket or its parent ends.

    Options: `imports`, the modules that every worker is to have; `walls`, which no box may lack.
    """
    _settle(parent)
    for name in (*options["imports"], "harness.worker.guest"):
        importlib.import_module(name)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork of a process with threads is not safe"  # noqa: PTH208
    places = cgroup_places.find()
    cgroup.sweep(places)
    interpreter.folders()  # Looked up once, for all boxes.
    gc.collect()
    gc.freeze()
    nursery = _Nursery(socket.socket(fileno=descriptor), places, set(options["walls"]))
    while nursery.answer():
        continue
    nursery.clear()


def _settle(parent: int) -> None:
    linux.become_unreadable()
    linux.become_reaper()
    # Nobody asks how a keeper ended, so none stays a zombie.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    above = os.pidfd_open(parent)
    linux.die_with(above)
    os.close(above)


class _Nursery:
    def __init__(self, client: socket.socket, places: Places, walls: set[str]) -> None:
        self._client = client
        self._places = places
        self._walls = walls
        self._keepers: set[int] = set()
        self._self = os.pidfd_open(os.getpid())

    def answer(self) -> bool:
        """One request, or the end of some keeper; False when nobody will ask any more."""
        client = self._client.fileno()
        ready, _, _ = select.select([client, *self._keepers], [], [])
        self._forget(self._keepers & set(ready))
        if client not in ready:
            return True
        heard = channel.hear(self._client)
        if heard is None:
            return False
        wish, descriptors = heard
        said, shown = self._done(wish, descriptors)
        channel.close_all(descriptors)
        with contextlib.suppress(OSError):
            channel.tell(self._client, {"token": wish["token"], **said}, shown)
        return True

    def clear(self) -> bool:
        """Ends all that was ever started here; False if something would not die."""
        until = time.monotonic() + processes.END_S_MAX
        for one in self._keepers:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(one, signal.SIGTERM)
        while self._keepers:
            ready, _, _ = select.select([*self._keepers], [], [], max(0, until - time.monotonic()))
            if not ready:
                break
            self._forget(set(ready))
        # Whatever got past its keeper is a child of this process by now.
        is_clear = processes.end_descendants()
        cgroup.sweep(self._places)
        return is_clear

    def _done(
        self, wish: dict[str, Any], descriptors: list[int]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        if "start" in wish:
            return self._start(from_json(wish["start"]), wish["way"], descriptors)
        if "clear" in wish:
            return {"is_clear": self.clear()}, ()
        return {"counts": self._counts()}, ()

    def _start(
        self, spec: Spec, way: str, descriptors: list[int]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        if lacking := self._walls - set(spec.walls):
            return {"fault": f"a box without {', '.join(sorted(lacking))} is not built here"}, ()
        try:
            pid = os.fork()
        except OSError as error:
            return {"fault": f"no process for a box: {error}"}, ()
        if pid == 0:
            self._be_keeper(spec, way, descriptors)
        pidfd = os.pidfd_open(pid)
        self._keepers.add(pidfd)
        return {"pid": pid}, (pidfd,)

    def _be_keeper(self, spec: Spec, way: str, descriptors: list[int]) -> NoReturn:
        try:
            os.setsid()
            linux.die_with(self._self, signal.SIGTERM)
            report, output, *controls = descriptors
            client = socket.socket(fileno=report)
            crew = jail.Crew(controls, output, client, lambda control: birth.serve(spec, control))
            keeper.keep(spec, client, self._places, _way(way, spec, crew))
        finally:
            # Whatever happens, a fork must never return into the loop above it.
            os._exit(1)

    def _forget(self, ended: set[int]) -> None:
        self._keepers -= ended
        channel.close_all(list(ended))

    def _counts(self) -> dict[str, int]:
        return {
            "descriptors": len(list(Path("/proc/self/fd").iterdir())),
            "boxes": len(self._keepers),
            "processes": len(processes.descendants(os.getpid())),
        }


def _way(way: str, spec: Spec, crew: jail.Crew) -> keeper.Way:
    return executed.way_into(spec, crew) if way == "exec" else jail.Jail(spec, crew)
