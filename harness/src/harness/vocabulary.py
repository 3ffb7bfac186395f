"""The closed vocabularies of runs: modes, stages, isolation levels, tiers, verdicts and grades.

This module imports nothing of the harness, so that the services read the same tables.
"""

from typing import Literal, NamedTuple, get_args

# What participants can request, in the order of the queue and of every list.
SubmissionMode = Literal["test", "benchmark", "profile", "ranked"]


class Stage(NamedTuple):
    """A step of a run.

    `budget` names the problem's budget of time for it; "" means the budget of the run's mode.
    `public_mode` is what a problem's own program, and the public client, call it; "" means that
    they use the name of the run's mode. With `is_alone`, no other run uses the device meanwhile.
    """

    title: str
    budget: str = ""
    public_mode: str = ""
    is_hidden: bool = False
    is_timed: bool = False
    is_alone: bool = False


class Mode(NamedTuple):
    """What a run does: its stages, in order; if one fails, the others are skipped.

    `public_mode` is its name in the public client, and for a problem's own program. `summary` tells
    participants what it does; a mode without one is not for them. With `is_recorded` one more call
    shows how the submission reaches its answers. Timed cases are measured in `processes` fresh
    processes at least.
    """

    stages: tuple[str, ...]
    public_mode: str
    summary: str = ""
    is_recorded: bool = False
    processes: int = 1

    @property
    def is_timed(self) -> bool:
        """Whether one of its stages measures time."""
        return any(STAGES[stage].is_timed for stage in self.stages)


STAGES = {
    "build": Stage("build", budget="build"),
    "check": Stage("check", budget="test", public_mode="test"),
    "hidden_check": Stage("hidden run", budget="test", public_mode="test", is_hidden=True),
    "timed_check": Stage("check of the timed cases", budget="benchmark", public_mode="test"),
    "time": Stage("time", is_timed=True, is_alone=True),
    "profile": Stage("profile", budget="benchmark", is_alone=True),
    "duel": Stage("duel", budget="ranked", is_timed=True, is_alone=True),
}
# Two submissions: each is built and checked, then they are timed in alternation.
DUEL = "duel"
RANKED = "ranked"
# For a problem's author: every case, judged and not timed.
VERIFY = "verify"
MODES = {
    "test": Mode(
        ("build", "check"),
        "test",
        "Check your file on the public cases",
        is_recorded=True,
    ),
    "benchmark": Mode(
        ("build", "check", "time"),
        "benchmark",
        "Check your file and time it, without a rank",
        is_recorded=True,
    ),
    "profile": Mode(("build", "check", "profile"), "profile", "Check your file and profile it"),
    "ranked": Mode(
        ("build", "check", "hidden_check", "time"),
        "leaderboard",
        "Check your file on hidden cases too, and rank its time",
        is_recorded=True,
        processes=3,
    ),
    VERIFY: Mode(("build", "check", "timed_check"), "benchmark"),
    DUEL: Mode(("build", "check", "hidden_check", DUEL), "benchmark", processes=5),
}
# What an agent does for a problem's author: it inspects the problem and runs several files in turn.
CHECK = "check"
SUBMISSION_MODES: tuple[str, ...] = get_args(SubmissionMode)

# Libraries that a problem can forbid.
LIBRARIES = ("cublas", "cudnn", "cufft", "cusolver", "cusparse", "cutlass")
# The compiler of each language that is compiled before it runs; nvrtc compiles CUDA on request.
COMPILERS = {"cpp": "g++", "cuda": "nvcc", "hip": "hipcc", "nvrtc": "nvrtc"}

# The files that a run puts beside a submission, besides those of the problem.
BOX_FILES = (
    *("utils.py", "warpboard.h", "utils.h", "reference.cuh"),
    *("wb_device.h", "wb_reference.cpp", "wb_submission.cpp", "wb_values.h"),
)

# The sides of a duel, and how it may end.
SIDES = ("A", "B")
WINNERS = (*SIDES, "equal")
# How well a machine isolates, from the weakest.
LEVELS = ("none", "weak", "medium", "strong")
# The least level of an evaluation, here and on a platform: a reward is worth what its walls are.
EVALUATION_LEVEL_MIN = "medium"
# Where the clock is, by device: docs/timing.md.
TIERS = ("G1", "G2", "G3", "G0", "C1", "C2")
# The device that needs no GPU, and the GPU type under which its results are ranked.
CPU_DEVICE, CPU_TYPE = "cpu", "CPU"
PASSED, SKIPPED, POLICY = "passed", "skipped", "policy"
VERDICTS = (
    PASSED,
    "wrong_answer",
    "late_write",
    "protocol",
    "timed_out",
    "out_of_memory",
    "output_limit",
    "crashed",
    "compile_error",
    "import_error",
    POLICY,
    "suspicious",
    SKIPPED,
)
# Why a run has no verdict, through no fault of the submission.
FAILURE_CODES = (
    *("supervisor", "problem_fault", "sandbox", "device", "noisy", "memory", "profiler"),
)
# A time that claims no order, and one that the submission's own process took.
NOISY, IN_PROCESS = "noisy", "in_process"
# How far a time can be trusted, in addition to its verdict, from harmless to severe.
GRADES = (
    *("ok", "handshake_bound", "launch_bound", "host_sync"),
    *("trend", "bimodal", NOISY, IN_PROCESS),
)
