"""Builds what a submission needs before its workers start, or takes it from the cache."""

import contextlib
import math
import os
import time
from dataclasses import asdict

from harness.build import plan
from harness.build.cache import BuildCache, read_memory, seal_memory
from harness.build.command import BuildRefused
from harness.build.plan import BuildPlan, ToolMissing
from harness.build.teams import WorkerTeams
from harness.devices.device import DeviceFault
from harness.report.verdict import CaseFailed
from harness.sandbox.team import Team
from harness.worker import protocol


def prepare_submission(
    worker_teams: WorkerTeams, cache: BuildCache, deadline: float, *, is_last: bool = True
) -> None:
    """Set in `worker_teams` what every worker is given; `is_last` closes the cache.

    Raises CaseFailed if the submission cannot be built, DeviceFault if this machine has no
    compiler.
    """
    try:
        build_plan = _plan_submission_build(worker_teams)
    except BuildRefused as refused:
        raise CaseFailed("compile_error", str(refused)) from refused
    except ToolMissing as missing:
        raise DeviceFault(str(missing)) from missing
    # A builder that imports the submission looks for the entry point too.
    worker_teams.role = {"entry": worker_teams.directory.problem.entry}
    data = cache.get(build_plan.key)
    # Otherwise the first worker compiles at import.
    if data is None and (build_plan.is_native or build_plan.is_heavy):
        data = _build(worker_teams, build_plan, deadline)
        # A result that cannot be cached is built again the next time.
        with contextlib.suppress(OSError):
            cache.put(build_plan.key, data)
    if build_plan.is_native and not data:
        raise CaseFailed("compile_error", "the builder produced no output")
    if build_plan.is_native:
        worker_teams.role["launch"] = build_plan.launch
    if data:
        worker_teams.built = (seal_memory(data),)
    if worker_teams.directory.problem.lang == "py" and is_last:
        # The author's code runs next, and other runs trust the content of the cache.
        cache.close()


def build_program(worker_teams: WorkerTeams, deadline: float) -> tuple[int, ...]:
    """Build a problem's own program with the submission; `worker_teams` closes its descriptor.

    Raises the same errors as `prepare_submission`.
    """
    directory, build_tools = worker_teams.directory, worker_teams.setup.machine.build_tools
    try:
        order = plan.plan_program(
            build_tools, directory.problem, worker_teams.path(), worker_teams.scratch()
        )
    except ToolMissing as missing:
        raise DeviceFault(str(missing)) from missing
    data = _build(worker_teams, BuildPlan("", order), deadline)
    if not data:
        raise CaseFailed("compile_error", "the builder produced no output")
    worker_teams.built = (seal_memory(data),)
    return worker_teams.built


def _plan_submission_build(worker_teams: WorkerTeams) -> BuildPlan:
    directory, build_tools = worker_teams.directory, worker_teams.setup.machine.build_tools
    source = (directory.submission / directory.problem.submission).read_bytes()
    others = sorted(
        path for path in directory.submission.iterdir() if path.name != directory.problem.submission
    )
    texts = (source, *(path.name.encode() + b"\0" + path.read_bytes() for path in others))
    if directory.problem.lang == "py":
        return plan.plan_build(build_tools, texts, worker_teams.path(), worker_teams.scratch())
    return plan.plan_driver_build(
        build_tools, directory.problem, texts, worker_teams.path(), worker_teams.scratch()
    )


def _build(worker_teams: WorkerTeams, build_plan: BuildPlan, deadline: float) -> bytes:
    """Return the builder's output, which only workers of the same source ever read."""
    memory = os.memfd_create("built", os.MFD_CLOEXEC)
    try:
        if build_plan.order is not None:
            team = worker_teams.start_builder({"order": asdict(build_plan.order)}, (memory,))
            _wait_for_compiler(worker_teams, team, deadline)
        else:
            team = worker_teams.start_builder(worker_teams.role, ())
            worker_teams.wait_until_ready(team, deadline)
            team.send(0, protocol.PACK, (memory,))
            worker_teams.wait_until_ready(team, deadline)
        team.end()
        return read_memory(memory)
    finally:
        os.close(memory)


def _wait_for_compiler(worker_teams: WorkerTeams, team: Team, deadline: float) -> None:
    """Wait for a compiler; log the reason here if it was ended and cannot report it itself.

    Raises CaseFailed.
    """
    limit_s = max(0, math.ceil(deadline - time.monotonic()))
    try:
        worker_teams.wait_until_ready(team, deadline, f"the compiler was stopped after {limit_s} s")
    except CaseFailed as failure:
        if failure.is_last:
            team.end()
            worker_teams.log.add(f"{failure.message}\n".encode())
        raise
