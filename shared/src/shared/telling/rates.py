"""What a time amounts to: rates, the share of what a GPU type can do, ratios to baselines."""

from collections.abc import Mapping

from shared.telling.answers import Roofline
from shared.telling.units import NOTHING

_RATES = (("G", 1.0), ("T", 1e3), ("P", 1e6))


def roofline_text(found: Roofline | None) -> str:
    """Rates and share of a time.

    >>> roofline_text(Roofline(bandwidth_gb_s=4100, gflops=341.7, share=0.854, bound="memory"))
    '4.1 TB/s, 342 GFLOP/s, 85 % of memory'
    >>> roofline_text(Roofline(gflops=0.25, dtype="int8")), roofline_text(None)
    ('0.25 GOP/s', '-')
    """
    if found is None:
        return NOTHING
    parts = []
    if found.bandwidth_gb_s is not None:
        parts.append(_rate(found.bandwidth_gb_s, "B/s"))
    if found.gflops is not None:
        parts.append(_rate(found.gflops, "OP/s" if found.dtype == "int8" else "FLOP/s"))
    if found.share is not None:
        parts.append(f"{share_text(found.share)} of {found.bound}")
    return ", ".join(parts) or NOTHING


def share_text(share: float | None) -> str:
    """A share of the roofline, in per cent.

    >>> share_text(0.854), share_text(0.0042), share_text(None)
    ('85 %', '0.42 %', '-')
    """
    if share is None:
        return NOTHING
    return f"{share:.0%}".replace("%", " %") if share >= 0.1 else f"{100 * share:.2g} %"


def speedups_text(found: Mapping[str, float]) -> str:
    """How many times as fast as each baseline something is.

    >>> speedups_text({"eager": 2.3149, "compile": 0.95}), speedups_text({})
    ('2.31x eager, 0.95x compile', '-')
    """
    return ", ".join(f"{ratio:.3g}x {name}" for name, ratio in found.items()) or NOTHING


def _rate(giga: float, unit: str) -> str:
    """A rate in the unit that suits it, to three significant digits."""
    prefix, size = next((one for one in reversed(_RATES) if giga >= one[1]), _RATES[0])
    return f"{giga / size:.3g} {prefix}{unit}"
