"""The page of the GPU types' data sheets, docs/gpus.md."""

from collections.abc import Mapping
from pathlib import Path

from harness.gpus import DTYPES, GpuSpec, gpu_specs
from shared.problems.roofline import FLOOR_SHARE

PAGE = Path(__file__).parent / "gpus.md"
HEAD = f"""# What GPU types can do

Generated from `harness/src/harness/gpus.csv` by `make docs`; a test fails when this page is stale.

Figures of the makers' public data sheets, which the least work of a problem is held against
([timing](timing.md#what-a-machine-can-do)): memory bandwidth, the last cache, and dense operations
a second, without sparsity, of the fastest unit for a type of number. What is left out has no unit,
or no public figure. The processor, `CPU`, is not here: of it, bandwidth and operations a second are
shown, and no share of what is possible.

A GPU type is named as leaderboards name it, so one row stands for several forms: H100 is the SXM
form, A100 the one with 80 GB, RTX3090 the Ti. On a slower form a share is too small; on a faster
one, such as H100 NVL with its 3.9 TB/s, it is too large. A floor is {FLOOR_SHARE:.0%} of the time
that the row gives, so that neither a faster form nor a clock above the data sheet's is held. The
least that is left of that: an RTX 5090 clocks so far above its sheet that plain matrix products
were measured at 117% of its tf32 and 115% of its bf16 (zzc0721/torch-performance-test-data, 96).

None of these figures was measured here, and none was read in a maker's data sheet: `looked up in`
names the public pages and repositories (`owner/name`) that a row was held against, and what it
excepts is from memory. A wrong one is fixed in that file; problem versions published before keep
the floors that they were published with.

"""


def page() -> str:
    """The page as it should be."""
    head = ("GPU type", "GB/s", "cache, MiB", *DTYPES, "source", "looked up in")
    lines = [_row(head), "|---" * len(head) + "|", *map(_line, gpu_specs())]
    return HEAD + f"Operations are in 10¹² a second.\n\n{chr(10).join(lines)}\n"


def _line(one: GpuSpec) -> str:
    rates = (_rate(one.tflops, dtype) for dtype in DTYPES)
    sizes = (f"{one.bandwidth_gb_s:g}", str(one.cache_mib))
    return _row((one.name, *sizes, *rates, one.source, one.looked_up_in))


def _rate(tflops: Mapping[str, float], dtype: str) -> str:
    return f"{tflops[dtype]:g}" if dtype in tflops else ""


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def pages() -> dict[Path, str]:
    """The page by its place."""
    return {PAGE: page()}
