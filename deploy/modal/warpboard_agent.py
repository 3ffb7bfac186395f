"""An agent for one job, which a launcher of kind `modal` starts (docs/operating/launchers.md).

Store the key of the launcher's setting CREDENTIAL_KEY in Modal, and deploy from a checkout:

    modal secret create warpboard WARPBOARD_CREDENTIAL_KEY=...
    modal deploy deploy/modal/warpboard_agent.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import modal

# The GPU type of a leaderboard, and its name at Modal; `!` means no better one instead.
GPUS = {
    "CPU": None,
    "T4": "T4",
    "L4": "L4",
    "A10": "A10",
    "A100": "A100-80GB",
    "L40S": "L40S",
    "H100": "H100!",
    "H200": "H200",
    "B200": "B200",
}
# As long as a job may wait and run at most.
AGENT_S_MAX = 90 * 60
PARTS = ("constraints.txt", "shared", "harness", "services/gpu-agent")
INSTALL = (
    "cd /src && pip install -c constraints.txt ./shared './harness[torch]' ./services/gpu-agent"
)
PREFIX = "WARPBOARD_GPU_AGENT"
# The agent's exit codes after which nothing is to be told: 4 means a job without a verdict.
QUIET_CODES = (0, 4)


def _build_image(gpu: str) -> modal.Image:
    """Return an image with the agent, and CUDA's compilers for a GPU."""
    image = modal.Image.debian_slim("3.11").apt_install("g++")
    if gpu != "CPU":
        cuda = modal.Image.from_registry("nvidia/cuda:13.0.1-devel-ubuntu24.04", add_python="3.11")
        image = cuda.apt_install("g++")
    root = Path(__file__).resolve().parents[2] if modal.is_local() else Path("/src")
    for part in PARTS:
        add = image.add_local_file if part.endswith(".txt") else image.add_local_dir
        image = add(root / part, f"/src/{part}", copy=True)
    return image.run_commands(INSTALL)


def run_agent(instance: str, gpu: str, credential: str) -> None:
    """Run an agent until its job has ended. Raises RuntimeError if it fails; its log says why.

    `instance` is the id of the request, which Modal's dashboard shows with the call.
    """
    del instance
    settings = {
        "CREDENTIAL": credential,
        "CREDENTIAL_KEY": os.environ["WARPBOARD_CREDENTIAL_KEY"],
        "DEVICE": "cpu" if gpu == "CPU" else "cuda",
        "DATA": tempfile.mkdtemp(prefix="warpboard-"),
        "OPS_LISTEN": "127.0.0.1:0",
    }
    environ = os.environ | {f"{PREFIX}_{name}": value for name, value in settings.items()}
    del environ["WARPBOARD_CREDENTIAL_KEY"]
    command = [sys.executable, "-P", "-m", "gpu_agent", "--once"]
    code = subprocess.run(command, env=environ, check=False).returncode
    if code not in QUIET_CODES:
        raise RuntimeError(f"the agent ended with code {code}")


app = modal.App("warpboard-agent")
for _gpu, _modal_gpu in GPUS.items():
    app.function(
        name=f"agent_{_gpu}",
        gpu=_modal_gpu,
        image=_build_image(_gpu),
        secrets=[modal.Secret.from_name("warpboard")],
        timeout=AGENT_S_MAX,
        # A submission leaves nothing behind for the next one.
        single_use_containers=True,
    )(run_agent)
