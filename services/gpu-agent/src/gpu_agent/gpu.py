"""Which GPU this is; a machine without one is the GPU type `CPU`."""

import hashlib
import shutil
import subprocess

from shared.events import AgentRegistered

PROBE_S_MAX = 20
CPU = "CPU"


def probe(environment: dict[str, str], harness: str, level: str) -> AgentRegistered:
    """What this machine offers: the GPU type that the harness can time here.

    This harness times the device `cpu` alone; GPUs that are present are named in the details.
    """
    gpus = _nvidia()
    details = environment | ({"gpus_not_offered": ", ".join(gpus)} if gpus else {})
    said = "\n".join(f"{name}={details[name]}" for name in sorted(details))
    return AgentRegistered(
        gpu=CPU,
        count=1,
        fingerprint=hashlib.sha256(said.encode()).hexdigest()[:16],
        level=level,
        harness=harness,
        details=details,
    )


def _nvidia() -> list[str]:
    """The names of the NVIDIA GPUs here, none if the driver's tool is not there or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        said = subprocess.run(
            [tool, "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=PROBE_S_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in said.stdout.splitlines() if line.strip()]
