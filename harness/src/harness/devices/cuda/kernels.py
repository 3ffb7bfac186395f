"""Our kernels, compiled for the device at hand and loaded before anything is timed."""

import ctypes
from pathlib import Path

from harness.devices.cuda.driver import COMPUTE_MAJOR, COMPUTE_MINOR, Driver, Kernel
from harness.devices.cuda.nvrtc import Nvrtc
from harness.devices.cuda.rules import architecture

NAMES = {
    "probe": (
        "k_null",
        "k_spin_ns",
        "k_spin_cycles",
        "k_clock",
        "k_step",
        "k_copy",
        "k_fma",
        "k_flush_write",
        "k_flush_read",
    ),
    "gate": ("k_stamp", "k_blanket", "k_witness", "k_recall"),
}
FOLDER = "kernels"


class Kernels:
    """The kernels by name. Errors: DeviceFault, if they cannot be compiled or loaded."""

    def __init__(self, driver: Driver, device: int) -> None:
        self.compute = (
            driver.attribute(COMPUTE_MAJOR, device),
            driver.attribute(COMPUTE_MINOR, device),
        )
        compiler = Nvrtc()
        self._kernels: dict[str, Kernel] = {}
        for file, names in NAMES.items():
            source = (Path(__file__).parent / FOLDER / f"{file}.cu").read_text(encoding="utf-8")
            code = compiler.compile(source, f"{file}.cu", architecture(self.compute))
            module = driver.pointer("cuModuleLoadData", ctypes.c_char_p(code))
            self._kernels |= {name: Kernel(driver, module, name) for name in names}
        self.blanket_bytes = self["k_blanket"].take_all_shared(device)

    def __getitem__(self, name: str) -> Kernel:
        """A kernel by its name."""
        return self._kernels[name]
