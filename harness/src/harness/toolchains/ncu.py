"""NVIDIA's kernel profiler: where it is, what it is of use for, and its command lines.

No real ncu has run these lines yet: they follow its manual, and tests use a stand-in for it.
"""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPORT_SUFFIX = ".ncu-rep"
KERNELS_MAX = 20

# By its manual: a box has no TCP, and no folder of documents to copy sections to.
ENVIRONMENT = {
    "NV_COMPUTE_PROFILER_LOCAL_CONNECTION_OVERRIDE": "uds",
    "NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT": "1",
}

_PACKAGE = Path(__file__).parent.parent
_PROGRAM = "worker/replay.py"
_DEVICES = ("cuda",)


@dataclass(frozen=True)
class Ncu:
    """A machine's ncu by its path, "" where there is none, and the devices that it is run on."""

    path: str = ""
    devices: tuple[str, ...] = _DEVICES

    def is_for(self, device: str, ranks: int) -> bool:
        """Whether a case is profiled by it: one process alone, for several wait for each other.

        >>> Ncu("/usr/bin/ncu").is_for("cuda", 1), Ncu("/usr/bin/ncu").is_for("cpu", 1)
        (True, False)
        """
        return bool(self.path) and device in self.devices and ranks == 1

    @property
    def folders(self) -> tuple[str, ...]:
        """Where it lies, by its own name and by that of what links lead to."""
        if not self.path:
            return ()
        found = (Path(self.path), Path(self.path).resolve())
        return tuple(sorted({str(one.parent) for one in found}))


def command(ncu: str, report: str) -> tuple[str, ...]:
    """What runs a program, whose arguments follow, and writes `report` and its suffix.

    Of the program, what lies between the marks of replay.py is profiled. Errors of ncu show in its
    output and its exit status; ERR_NVGPUCTRPERM means that the operator has not allowed
    performance counters to accounts other than root.
    """
    return (
        ncu,
        "--config-file=off",
        "--target-processes=all",
        "--profile-from-start=off",
        "--set=full",
        "--import-source=yes",
        "--clock-control=none",
        f"--launch-count={KERNELS_MAX}",
        "--force-overwrite",
        f"--export={report}",
    )


def pages(ncu: str, report: str) -> dict[str, tuple[str, ...]]:
    """The command lines that make a report's page to read, and its table to compute with.

    A report is made by an untrusted process: it is read in a box, never by the supervisor.
    """
    source = f"--import={report}{REPORT_SUFFIX}"
    return {
        "text": (ncu, source, "--page=details"),
        "csv": (ncu, source, "--page=raw", "--csv"),
    }


def packed(package: Path = _PACKAGE) -> bytes:
    """The program that ncu runs, with all it imports: a box shows nothing else of the harness."""
    files: Sequence[Path] = [package / "__init__.py", *sorted((package / "worker").glob("*.py"))]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, f"harness/{file.relative_to(package)}")
        archive.write(package / _PROGRAM, "__main__.py")
    return made.getvalue()
