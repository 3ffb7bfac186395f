"""A spare box: built before it is known for which submission, used once, and never used again.

Its walls are up and its workers wait within them, frozen. What depends on the submission comes with
its assignment: the limits, the files, the control sockets and the output. Until then only the
platform's own code has run in it. Without namespaces there is no spare box, because Landlock must
know the submission's folder when the box is built. A worker with a GPU has its context open.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from harness.sandbox import fork_entry, linux, ranks, walls
from harness.sandbox.box import (
    BoxSpec,
    Limits,
    close_descriptors,
    describe_error,
    make_channel,
    receive_message,
    send_message,
    spec_from_json,
    spec_to_json,
)
from harness.sandbox.image import Image

_PARENT = 4
_REPORT = 4


def spare_spec(spec: BoxSpec) -> BoxSpec:
    """Return what is known of a box before its assignment; equal for boxes that can be exchanged.

    >>> one = BoxSpec(("namespaces",), Limits(memory_bytes=1), "/a", "a.py")
    >>> spare_spec(one) == spare_spec(replace(one, submission="/b", limits=Limits()))
    True
    >>> spare_spec(one) == spare_spec(replace(one, cores=(1,)))
    False
    """
    limits = spec.limits
    common = Limits(scratch_bytes=limits.scratch_bytes, cpu_weight=limits.cpu_weight)
    return replace(spec, submission="", main="", limits=common)


def can_wait(spec: BoxSpec) -> bool:
    """Return whether a box like this one can be built before its submission is known."""
    # Each of several ranks learns with its role which GPU is its own.
    return spec.has_namespaces and (not spec.devices or spec.ranks == 1)


class SpareEntry:
    """Enters a spare box by fork, and waits for its assignment.

    `prepare_worker` runs in each worker within its walls: it does what every worker needs.
    `serve` serves a submission on a control socket.
    """

    fault_files: Sequence[int] = ()

    def __init__(
        self,
        spec: BoxSpec,
        images: Mapping[str, Image],
        keeper: socket.socket,
        prepare_worker: Callable[[BoxSpec], None],
        serve: Callable[[BoxSpec, int], NoReturn],
    ) -> None:
        self._spec = spec
        self._images = images
        self._keeper = keeper
        self._prepare_worker = prepare_worker
        self._serve = serve

    def prepare(self) -> None:
        """Make the next fork pid 1 of a new pid namespace. Raises OSError."""
        fork_entry.leave_pid_namespace()

    def begin(self) -> NoReturn:
        """Run the attendant's whole life, in that fork. Raises OSError."""
        fork_entry.set_umask()
        fork_entry.build_namespaces(self._spec, self._images)
        self_descriptor = os.pidfd_open(os.getpid())
        # These sockets belong to the box's own network, which has no addresses.
        channels = [make_channel() for _ in range(self._spec.ranks)]
        workers = {}
        for own_end, worker_end in channels:
            workers[self._start_worker(worker_end, self_descriptor)] = own_end
        for own_end, worker_end in channels:
            worker_end.close()
            if receive_message(own_end) is None:
                raise OSError("a worker of a spare box ended before it was built")
        linux.silence_streams()
        descriptors = [self._keeper.fileno(), *(own_end.fileno() for own_end in workers.values())]
        linux.keep_descriptors(descriptors)
        send_message(self._keeper, {"built": True})
        report = self._assign(workers)
        linux.keep_descriptors([report.fileno()])
        status = ranks.wait_for_ranks(workers)
        send_message(report, {"status": status})
        os._exit(0)

    def fault(self, _: int) -> str:
        """Return "": every fault was reported when it happened."""
        return ""

    def _assign(self, workers: Mapping[int, socket.socket]) -> socket.socket:
        """Wait for the assignment and pass it on to the workers; return the client's channel."""
        received = receive_message(self._keeper)
        if received is None:
            os._exit(1)
        message, (report_end, folder, output, *controls) = received
        spec, report = spec_from_json(message["assign"]), socket.socket(fileno=report_end)
        try:
            walls.show_submission(folder)
            for pid in workers:
                fork_entry.send_schedule(report, pid)
            fork_entry.drop_privileges(spec)
            linux.become_unreadable()
            assignment = {"assign": spec_to_json(spec)}
            for channel, control in zip(workers.values(), controls, strict=True):
                send_message(channel, assignment, [report.fileno(), output, control])
        except Exception as error:
            send_message(report, {"fault": describe_error(error)})
            raise
        return report

    def _start_worker(self, channel: socket.socket, parent: int) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                self._run_worker(channel, parent)
            finally:
                os._exit(1)
        return pid

    def _run_worker(self, channel: socket.socket, parent: int) -> NoReturn:
        """Put the walls up, wait for the assignment, and serve the submission."""
        linux.silence_streams()
        places = fork_entry.move_descriptors([channel.fileno(), parent])
        channel.detach()
        for place, descriptor in zip((ranks.CONTROL, _PARENT), places, strict=True):
            os.dup2(descriptor, place, inheritable=False)
        linux.keep_descriptors([ranks.CONTROL, _PARENT])
        linux.die_with_parent(_PARENT)
        os.setsid()
        fork_entry.build_walls(self._spec, _PARENT, has_limits=False)
        # Until the assignment, nothing else may take this place.
        os.dup2(0, _REPORT, inheritable=False)
        self._prepare_worker(self._spec)
        assigner = socket.socket(fileno=ranks.CONTROL)
        send_message(assigner, {"built": True})
        received = receive_message(assigner)
        if received is None:
            os._exit(1)
        message, (report, output, control) = received
        assigner.detach()
        for place, descriptor in enumerate((output, output, control, report), start=1):
            os.dup2(descriptor, place, inheritable=place <= ranks.CONTROL)
        # The driver of a GPU has files of its own open.
        close_descriptors([report, output, control])
        spec = spec_from_json(message["assign"])
        with socket.socket(fileno=_REPORT) as client:
            try:
                fork_entry.limit_resources(spec)
            except Exception as error:
                send_message(client, {"fault": describe_error(error)})
                raise
            send_message(client, {"built": 1})
        self._serve(spec, ranks.CONTROL)
