"""Several GPUs of one host as a device: one for each rank, and the time of the slowest."""

import importlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from harness.devices.cuda import rules
from harness.devices.cuda.device import Cuda, timed_by_host
from harness.devices.cuda.memory import Inputs
from harness.devices.cuda.volley import Volley, Words, words_of
from harness.devices.device import Device, DeviceFault, Memory, Window
from harness.timing.estimators import quantile

_STAGGER_SHARE = 0.9

Said = TypeVar("Said")


class Gang:
    """A GPU for each rank, each with a referee of its own. Errors: DeviceFault, from any method.

    Its tier is G2 at most, whatever runs beside: all inputs are revealed strictly, and workers run
    from the release on.
    """

    name = "cuda"

    def __init__(self, ranks: int, *, is_frozen: bool) -> None:
        self.members = [
            Cuda(index, is_frozen=is_frozen, runs_beside=False) for index in range(ranks)
        ]
        self.place = self.members[0].place
        self.tier = "G0"
        self.flags: tuple[str, ...] = ()
        self.architecture = ""

    def prepare(self) -> None:
        """Opens every GPU; all must be of one architecture."""
        torch: Any = importlib.import_module("torch")
        for member in self.members:
            member.prepare()
        found = sorted({member.architecture for member in self.members})
        if len(found) > 1:
            raise DeviceFault(f"the ranks' GPUs are of several architectures: {', '.join(found)}")
        self.architecture = found[0]
        self.tier = rules.lowest(member.tier for member in self.members)
        words = torch.zeros(words_of(len(self.members)), dtype=torch.int32, pin_memory=True)
        referees = [member.referee for member in self.members]
        self._volley = Volley(self.members[0].driver, referees, Words(words))
        torch.cuda.set_device(self.place)

    def describe(self) -> dict[str, str]:
        """What a result should say of the first GPU, and which all of them are."""
        said = [member.describe() for member in self.members]
        uuids = ", ".join(one["gpu_uuid"] for one in said)
        return said[0] | {"gpus": str(len(said)), "gpu_uuid": uuids}

    def of_rank(self, rank: int) -> Device:
        """The GPU of a rank."""
        return self.members[rank]

    def allocate(self, size: int, role: str) -> Memory:
        """Memory of the first rank's GPU."""
        return self.members[0].allocate(size, role)

    def flush(self) -> None:
        """Nothing: the caches are emptied inside `timed`."""

    def timed(self, window: Window) -> float:
        """One call: the time of the slowest rank, in microseconds."""
        shot = self._shoot(window)
        self.flags = shot.flags
        cast("Inputs", window.memories[0][0]).shots.append(shot)
        return shot.time_us

    def run_untimed(self, window: Window) -> None:
        """One call of which no time is kept."""
        self._shoot(window)

    def _shoot(self, window: Window) -> rules.Shot:
        if self.tier == "G2":
            return self._volley.shoot(window)
        return timed_by_host(self.members, window)

    def statistics(self, inputs: Memory) -> dict[str, float]:
        """How far apart the ranks started at most, in nine calls of ten, and their number."""
        staggers = [shot.stagger_us for shot in cast("Inputs", inputs).shots]
        found = {"ranks": float(len(self.members))}
        return found | ({"stagger_us": quantile(staggers, _STAGGER_SHARE)} if staggers else {})

    def reference(self, name: str) -> float:
        """A reference kernel on every GPU, one after the other: the slowest time."""
        return max(self._each(lambda member: member.reference(name)))

    def calibration(self) -> dict[str, float]:
        """Of each figure the largest."""
        found: dict[str, float] = {}
        for said in self._each(Cuda.calibration):
            for name, value in said.items():
                found[name] = max(value, found.get(name, value))
        return found

    def suspicion(self, inputs: Memory, null_spread_us: float) -> str:
        """Nothing: no input is shown before a clock starts."""
        del inputs, null_spread_us
        return ""

    def unfit(self) -> list[str]:
        """Why a GPU is not fit, with its rank."""
        return [
            f"rank {rank}: {reason}"
            for rank, member in enumerate(self.members)
            for reason in member.unfit()
        ]

    def close(self) -> None:
        """Lets go of all."""
        for member in self.members:
            member.close()

    def _each(self, ask: Callable[[Cuda], Said]) -> Iterator[Said]:
        for member in self.members:
            with member.referee.lane.current():
                yield ask(member)
