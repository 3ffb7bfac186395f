"""Bandwidth and arithmetic rates of GPU types, from the makers' data sheets."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")
MIB = 1024**2


@dataclass(frozen=True)
class GpuSpec:
    """A GPU type's data sheet: dense rates of the fastest unit for each number type.

    Units: `bandwidth_gb_s` in 10^9 bytes per second, `cache_mib` of the last-level cache, `tflops`
    in 10^12 operations per second. A number type that is missing has no unit or no public figure.
    `looked_up_in` names where the figures were found, since the makers' sheets were not available:
    public pages, and repositories as owner/name; figures it excludes are from memory.
    """

    name: str
    bandwidth_gb_s: float
    cache_mib: int
    tflops: Mapping[str, float]
    source: str
    looked_up_in: str

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.bandwidth_gb_s * 1e9

    @property
    def cache_bytes(self) -> int:
        """How many written bytes may never have left the chip."""
        return self.cache_mib * MIB

    def flops(self, dtype: str) -> float | None:
        """Return operations per second; None if unknown."""
        tflops = self.tflops.get(dtype)
        return None if tflops is None else tflops * 1e12


@cache
def gpu_specs() -> tuple[GpuSpec, ...]:
    """Return the data sheets in `gpus.csv`.

    Of a type with several variants a row has the one people rank by: SXM or OAM. A card and its Ti
    share a name here; the row is the Ti's, since a floor must hold for both.
    """
    lines = (files("harness") / "gpus.csv").read_text(encoding="utf-8").splitlines()
    return tuple(
        GpuSpec(
            row["name"],
            float(row["bandwidth_gb_s"]),
            int(row["cache_mib"]),
            {dtype: float(row[dtype]) for dtype in DTYPES if row[dtype]},
            row["source"],
            row["looked_up_in"],
        )
        for row in csv.DictReader(lines)
    )


def find_gpu_spec(name: str) -> GpuSpec | None:
    """Return a GPU type's data sheet; None for CPU and for unknown types.

    >>> find_gpu_spec("H200").bandwidth_gb_s, find_gpu_spec("CPU")
    (4800.0, None)
    """
    return next((spec for spec in gpu_specs() if spec.name == name.upper()), None)


def is_amd(name: str) -> bool:
    """Return whether a GPU type is one of AMD.

    >>> is_amd("MI300X"), is_amd("H100")
    (True, False)
    """
    return re.match(r"MI\d", name, re.IGNORECASE) is not None
