"""A rehearsal of the start of a run, which never runs anything.

A fork makes two processes share their memory, and the first write to each page copies it. Without a
rehearsal, a run would make the supervisor and its spare process copy about a thousand of them while
somebody waits.
"""

import hashlib
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

from harness.build.teams import Machine
from harness.messages import RunRequest, request_from_line, to_line
from harness.problem import AuthorActivity, load_problem
from harness.supervisor.folders import RunFolder, prepare_run_directory
from harness.supervisor.process import Order, decode_order, encode_order
from harness.supervisor.run import Preparation, RunDevice, StagedRun, find_device_spec

_REFERENCE = "reference.py"
_SIZE = 64


class Rehearsal:
    """A problem and a submission that nobody runs, in a folder of the supervisor."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        problem, source = folder / "problem", folder / "submission.py"
        problem.mkdir(parents=True)
        for path in (problem / _REFERENCE, source):
            path.write_bytes(b"")
        args = {"size": _SIZE, "seed": 1}
        manifest = {
            "slug": "rehearsal",
            "lang": "py",
            "files": {_REFERENCE: hashlib.sha256(b"").hexdigest()},
            "submission": source.name,
            "tests": [{"name": f"size={_SIZE}", "args": args}],
            "benchmarks": [{"name": f"size={_SIZE}", "args": args}],
            "ranking_by": "last",
        }
        (problem / "manifest.json").write_text(json.dumps(manifest))
        self._folder = folder
        self._line = to_line(RunRequest(str(problem), str(source), "test", str(folder)))
        self._order = b""

    def prepare_run(self, machine: Machine) -> None:
        """Do what a supervisor does for a request. Raises OSError."""
        request = request_from_line(self._line)
        assert isinstance(request, RunRequest)
        problem = load_problem(Path(request.problem))
        find_device_spec(request, problem, machine)
        folder = RunFolder.make(self._folder)
        try:
            directory = prepare_run_directory(request, problem, folder)
        finally:
            folder.leave()
        self._order = encode_order(Order("", request, directory, is_shared=False))

    def begin_run(self, machine: Machine, run_device: RunDevice, mark: AuthorActivity) -> None:
        """Do what the process of a run does up to its first message. Raises MemoryShortage."""
        order = decode_order(io.BytesIO(self._order), mark)
        assert isinstance(order.request, RunRequest)
        request = replace(order.request, device=run_device.spec.device)
        preparation = Preparation(run_device=run_device)
        run = StagedRun(request, order.directory, machine, lambda _: None, preparation)
        to_line(run.describe())

    def leave(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)
