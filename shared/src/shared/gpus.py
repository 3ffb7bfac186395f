"""Bandwidth and arithmetic rates of GPU types, from the makers' data sheets."""

from collections.abc import Mapping
from dataclasses import dataclass

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")
MIB = 1024**2


@dataclass(frozen=True)
class GpuSpec:
    """A GPU type's data sheet: dense rates of the fastest unit for each number type.

    Units: `bandwidth_gb_s` in 10^9 bytes per second, `cache_mib` of the last-level cache, `tflops`
    in 10^12 operations per second. A number type that is missing has no unit or no public figure.
    `seen` names where the figures were found, since the makers' sheets were not available: public
    pages, and repositories as owner/name; figures it excludes are from memory.
    """

    name: str
    bandwidth_gb_s: float
    cache_mib: int
    tflops: Mapping[str, float]
    source: str
    seen: str

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


def find_gpu_spec(name: str) -> GpuSpec | None:
    """Return a GPU type's data sheet; None for the CPU and for unknown types.

    >>> find_gpu_spec("H200").bandwidth_gb_s, find_gpu_spec("CPU")
    (4800, None)
    """
    return next((spec for spec in GPU_SPECS if spec.name == name.upper()), None)


_HOPPER = {
    "fp64": 66.9,
    "fp32": 66.9,
    "tf32": 494.7,
    "fp16": 989.4,
    "bf16": 989.4,
    "fp8": 1978.9,
    "int8": 1978.9,
}
_CDNA3 = {
    "fp64": 163.4,
    "fp32": 163.4,
    "tf32": 653.7,
    "fp16": 1307.4,
    "bf16": 1307.4,
    "fp8": 2614.9,
    "int8": 2614.9,
}
# Of a type with several variants this is the one people rank by: SXM or OAM.
# A card and its Ti share a name here; the row is the Ti's, since a floor must hold for both.
GPU_SPECS = (
    GpuSpec(
        "T4",
        320,
        4,
        {"fp32": 8.1, "fp16": 65, "int8": 130},
        "NVIDIA T4 data sheet",
        "Lightning-AI/pytorch-lightning; sysrqmts.com (bandwidth, cache)",
    ),
    GpuSpec(
        "V100",
        900,
        6,
        {"fp64": 7.8, "fp32": 15.7, "fp16": 125},
        "NVIDIA V100 data sheet, SXM2",
        "Lightning-AI/pytorch-lightning; huggingface.co/RajBhope (bandwidth, cache)",
    ),
    GpuSpec(
        "A10",
        600,
        6,
        {"fp32": 31.2, "tf32": 62.5, "fp16": 125, "bf16": 125, "int8": 250},
        "NVIDIA A10 data sheet",
        "lamonoai/gpumap; VladislavDuma/gpu_specs",
    ),
    GpuSpec(
        "A100",
        2039,
        40,
        {"fp64": 19.5, "fp32": 19.5, "tf32": 156, "fp16": 312, "bf16": 312, "int8": 624},
        "NVIDIA A100 data sheet, SXM 80 GB",
        "pytorch/pytorch; lamonoai/gpumap (cache too)",
    ),
    GpuSpec(
        "L4",
        300,
        48,
        {"fp32": 30.3, "tf32": 60, "fp16": 121, "bf16": 121, "fp8": 242.5, "int8": 242.5},
        "NVIDIA L4 data sheet, halved where it counts sparsity",
        "pytorch/pytorch (with sparsity); winston-zhang-orz/gpu-specs; hmc-tech.com (cache)",
    ),
    GpuSpec(
        "L40S",
        864,
        96,
        {"fp32": 91.6, "tf32": 183, "fp16": 366.5, "bf16": 366.5, "fp8": 733, "int8": 733},
        "NVIDIA L40S data sheet; fp16 is half of what it counts with sparsity",
        "mullet.se; VladislavDuma/gpu_specs; not the cache, where copies say 48",
    ),
    GpuSpec(
        "H100",
        3350,
        50,
        _HOPPER,
        "NVIDIA H100 data sheet, SXM, halved where it counts sparsity",
        "glennklockwood.com; archive-lib.hpctech.co.jp (cache too)",
    ),
    GpuSpec(
        "H200",
        4800,
        60,
        _HOPPER,
        "NVIDIA H200 data sheet, SXM, halved where it counts sparsity",
        "glennklockwood.com; lamonoai/gpumap; cache: what a driver printed",
    ),
    GpuSpec(
        "GH200",
        4900,
        60,
        _HOPPER,
        "NVIDIA GH200 data sheet, HBM3e",
        "atineoSE/coding-model-seeks-gpu; cache: what a driver printed",
    ),
    GpuSpec(
        "B200",
        8000,
        126,
        {
            "fp64": 37,
            "fp32": 75,
            "tf32": 1125,
            "fp16": 2250,
            "bf16": 2250,
            "fp8": 4500,
            "fp4": 9000,
            "int8": 4500,
        },
        "NVIDIA Blackwell data sheet, HGX B200, halved; the bandwidth is DGX B200's",
        "atineoSE/coding-model-seeks-gpu; astroC86/gpu-datasheet; freecodecamp.org (cache)",
    ),
    GpuSpec(
        "GB200",
        8000,
        126,
        {
            "fp64": 40,
            "fp32": 80,
            "tf32": 1250,
            "fp16": 2500,
            "bf16": 2500,
            "fp8": 5000,
            "fp4": 10000,
            "int8": 5000,
        },
        "NVIDIA Blackwell data sheet, GB200 NVL72, halved where it counts sparsity",
        "atineoSE/coding-model-seeks-gpu; hmc-tech.com; app.daily.dev (cache)",
    ),
    GpuSpec(
        "RTX3090",
        1008,
        6,
        {"fp32": 40, "tf32": 40, "fp16": 160, "bf16": 80, "int8": 320},
        "NVIDIA data sheet of the RTX 3090 Ti, which has the same name here",
        "lamonoai/gpumap",
    ),
    GpuSpec(
        "RTX4090",
        1008,
        72,
        {"fp32": 82.6, "tf32": 82.6, "fp16": 330.3, "bf16": 165.2, "fp8": 660.6, "int8": 660.6},
        "NVIDIA Ada architecture whitepaper, fp16 and fp8 with fp16 sums",
        "lamonoai/gpumap; VladislavDuma/gpu_specs; cache: what a driver printed",
    ),
    GpuSpec(
        "RTX5090",
        1792,
        96,
        {
            "fp32": 104.8,
            "tf32": 104.8,
            "fp16": 419,
            "bf16": 209.5,
            "fp8": 838,
            "fp4": 1676,
            "int8": 838,
        },
        "NVIDIA RTX Blackwell whitepaper, fp16 and fp8 with fp16 sums",
        "lamonoai/gpumap (cache too); VladislavDuma/gpu_specs (fp8, fp4)",
    ),
    GpuSpec(
        "MI250X",
        1638,
        8,
        {"fp64": 47.9, "fp32": 47.9, "fp16": 191.5, "bf16": 191.5, "int8": 191.5},
        "AMD Instinct MI250X data sheet, one of its two dies",
        "rocm.docs.amd.com; AMD's blog on matrix cores (by 110 units, 1.7 GHz); pytorch/torchtitan",
    ),
    GpuSpec(
        "MI300X",
        5325,
        256,
        _CDNA3,
        "AMD Instinct MI300X data sheet and its footnote MI300-05A",
        "pytorch/pytorch; copies of the footnote; rocm.docs.amd.com (cache)",
    ),
    GpuSpec(
        "MI325X",
        6000,
        256,
        _CDNA3,
        "AMD Instinct MI325X data sheet",
        "awesomeagents.ai; svethardware.cz; rocm.docs.amd.com (cache); not fp64",
    ),
    GpuSpec(
        "MI355X",
        8000,
        256,
        {
            "fp64": 78.6,
            "fp32": 157.3,
            "fp16": 2516.6,
            "bf16": 2516.6,
            "fp8": 5033.2,
            "fp4": 10066.3,
            "int8": 5033.2,
        },
        "AMD Instinct MI355X data sheet",
        "pytorch/pytorch (MI350X, by 2.4 to 2.2 GHz); svethardware.cz; rocm.docs.amd.com (cache)",
    ),
)
