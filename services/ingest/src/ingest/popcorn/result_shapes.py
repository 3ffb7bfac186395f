"""What came of a submission in the public protocol's words: FullResult, as streams end in it."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from shared.answers import AtText, Seconds

# Keys such as `benchmark.0.mean`: counts are integers, times nanoseconds.
Protocol = Annotated[
    dict[str, int | float | str], Field(description="The public protocol's keys; nanoseconds.")
]


class System(TypedDict):
    """What a submission ran on."""

    gpu: str
    device_count: int
    cpu: str
    runtime: Literal["CPU", "CUDA", "ROCm"]
    platform: str
    torch: str
    hostname: str


class Compilation(TypedDict):
    """A build that failed."""

    nvcc_found: bool
    nvcc_version: str
    success: bool
    command: str
    stdout: str
    stderr: str
    exit_code: int


class RunEvaluated(TypedDict):
    """What a stage printed, and its keys."""

    success: bool
    passed: bool
    command: str
    stdout: str
    stderr: str
    exit_code: int
    duration: Seconds
    result: Protocol


class Profile(TypedDict):
    """What a profiler saw of a case: a zip in base64, or where it lies if it is too large."""

    profiler: str
    trace: str
    download_url: str | None


class EvalResult(TypedDict):
    """One stage."""

    start: AtText | None
    end: AtText | None
    compilation: Compilation | None
    run: RunEvaluated
    profile: Profile | None


class FullResult(TypedDict):
    """All stages that are not hidden, by their public names."""

    success: bool
    error: str
    system: System
    runs: dict[str, EvalResult]
