"""Which device a GPU's name stands for on this machine."""

from harness.devices.cuda import mps
from harness.devices.cuda.device import Cuda
from harness.devices.cuda.gang import Gang
from harness.devices.device import Device, DeviceFault
from harness.devices.hip import hip
from harness.devices.local import Local

NAMES = ("cuda", "hip")

# A kernel that is loaded at its first launch would be loaded while something is timed.
EAGER = {"CUDA_MODULE_LOADING": "EAGER"}


def opened(name: str, *, is_frozen: bool, ranks: int = 1, pipes: str = mps.PIPES) -> Device:
    """The device, prepared: at the best tier that it can keep. Errors: DeviceFault.

    Each of several `ranks` has a GPU of its own, the first ones that this process sees. `pipes`
    is where an MPS daemon would answer; if one does, this process becomes its client.
    """
    if name not in NAMES:
        raise DeviceFault(f"there is no GPU device {name!r}, only {' and '.join(NAMES)}")
    local = hip() if name == "hip" else Local(name)
    if name == "cuda":
        is_running = mps.is_running(pipes)
        mps.join(EAGER | ({"CUDA_MPS_PIPE_DIRECTORY": pipes} if is_running else {}))
        device: Cuda | Gang
        if ranks > 1:
            device = Gang(ranks, is_frozen=is_frozen)
        else:
            device = Cuda(is_frozen=is_frozen, runs_beside=is_running)
        device.prepare()
        if device.tier != "G0":
            return device
    local.prepare()
    return local
