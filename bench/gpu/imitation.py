"""A GPU whose driver and kernels are the tests' imitations, to rehearse on a machine without one.

Time advances by steps there, so nothing that is measured on it means anything.
"""

import ctypes
import importlib
from typing import Any, cast

from harness.devices.cuda.device import FMA_BYTES, CudaDevice
from harness.devices.cuda.driver import Kernels
from harness.devices.cuda.gate import DeviceFacts, Referee, RefereeStream
from harness.devices.cuda.rules import choose_clock
from tests.devices import fake_driver

NAME = "Imitation of a GPU"
UUID = "GPU-00000000-0000-0000-0000-000000000000"
FLUSH_BYTES = 4096
CYCLES_PER_US = 1000


class TimedKernels(fake_driver.Kernels):
    """The imitated kernels, of which those that spin take as long as they are asked to."""

    def __getitem__(self, name: str) -> Any:
        launch = super().__getitem__(name)

        def launch_timed(stream: int, grid: tuple[int, int], *arguments: Any) -> None:
            takes_ns = arguments[0].value if name in ("k_spin_ns", "k_spin_cycles") else 0
            if name == "k_spin_cycles":
                takes_ns = takes_ns * 1000 // CYCLES_PER_US
            self._machine.slow_ns[name, self._device] = takes_ns
            launch(stream, grid, *arguments)

        return launch_timed

    def _k_spin_cycles(self, cycles: int, seen: int) -> None:
        ended_ns = self._machine.timer_ns(self._device)
        began_ns = ended_ns - cycles * 1000 // CYCLES_PER_US
        (ctypes.c_int64 * 3).from_address(seen)[:] = [began_ns, ended_ns, cycles]


class ImitatedDevice(CudaDevice):
    """A device that is opened without a driver, on the processor's memory."""

    def prepare(self) -> None:
        """Open it: a machine with one GPU, its kernels, and a referee."""
        self._torch = importlib.import_module("torch")
        machine = fake_driver.Machine(NAME)
        self.driver, self.place = machine, "cpu"
        self.kernels = cast("Kernels", TimedKernels(machine, 0))
        self.timer_step_ns = fake_driver.STEP_NS
        self.facts = DeviceFacts("cpu", 1, FLUSH_BYTES, choose_clock(self.timer_step_ns))
        lane = cast("RefereeStream", fake_driver.Lane(machine, 0, machine.stream(0)))
        self.referee = Referee(machine, self.kernels, self.facts, lane)
        self._line = self._torch.zeros(FMA_BYTES, dtype=self._torch.uint8)


def open_device() -> CudaDevice:
    """Return an imitated device that is ready."""
    device = ImitatedDevice(is_frozen=True, runs_beside=False)
    device.prepare()
    return device
