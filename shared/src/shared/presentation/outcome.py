"""A run in words: its rates, speed-ups, composition, output and isolation."""

from collections.abc import Mapping, Sequence

import msgspec

from shared.api.cases import Case, Roofline
from shared.api.problems import ShortcutPolicy
from shared.api.submissions import File, FullSubmission
from shared.presentation.units import NO_VALUE, escape_control_characters, one_line
from shared.run_values import Composition

_RATES = (("G", 1.0), ("T", 1e3), ("P", 1e6))


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run on this machine: its result and its measurements, as a submission has them."""

    verdict: str | None = None
    stage: str | None = None
    reason: str | None = None
    took_s: float | None = None
    level: str | None = None
    tier: str | None = None
    missing: list[str] = []
    cases: list[Case] = []
    files: list[File] = []
    environment: dict[str, str] = {}
    log_head: str = ""
    log_tail: str = ""


AnyRun = Run | FullSubmission


def roofline_text(roofline: Roofline | None) -> str:
    """Format the rates and the share of a time.

    >>> roofline_text(Roofline(bandwidth_gb_s=4100, gflops=341.7, share=0.854, bound="memory"))
    '4.1 TB/s, 342 GFLOP/s, 85 % of memory'
    >>> roofline_text(Roofline(gflops=0.25, dtype="int8")), roofline_text(None)
    ('0.25 GOP/s', '-')
    """
    if roofline is None:
        return NO_VALUE
    parts = []
    if roofline.bandwidth_gb_s is not None:
        parts.append(_rate_text(roofline.bandwidth_gb_s, "B/s"))
    if roofline.gflops is not None:
        parts.append(_rate_text(roofline.gflops, "OP/s" if roofline.dtype == "int8" else "FLOP/s"))
    if roofline.share is not None:
        parts.append(f"{share_text(roofline.share)} of {roofline.bound}")
    return ", ".join(parts) or NO_VALUE


def share_text(share: float | None) -> str:
    """Format a share of the roofline in per cent.

    >>> share_text(0.854), share_text(0.0042), share_text(None)
    ('85 %', '0.42 %', '-')
    """
    if share is None:
        return NO_VALUE
    return f"{share:.0%}".replace("%", " %") if share >= 0.1 else f"{100 * share:.2g} %"


def speedups_text(ratios: Mapping[str, float]) -> str:
    """Format how many times as fast as each baseline a time is.

    >>> speedups_text({"eager": 2.3149, "compile": 0.95}), speedups_text({})
    ('2.31x eager, 0.95x compile', '-')
    """
    return ", ".join(f"{ratio:.3g}x {name}" for name, ratio in ratios.items()) or NO_VALUE


def speedup_text(speedup: float | None, interval: Sequence[float] | None = None) -> str:
    """Say how many times as fast as the yardstick a time is, with the 95 % interval.

    >>> speedup_text(1.8412, (1.802, 1.88))
    '1.84 times as fast as the yardstick (1.80 to 1.88)'
    >>> speedup_text(0.52), speedup_text(None)
    ('0.520 times as fast as the yardstick', '')
    """
    if speedup is None:
        return ""
    text = f"{speedup:#.3g} times as fast as the yardstick"
    return f"{text} ({interval[0]:#.3g} to {interval[1]:#.3g})" if interval else text


def speedup_cell(speedup: float | None, interval: Sequence[float] | None = None) -> str | None:
    """Format a speed-up over the yardstick for a table.

    >>> speedup_cell(1.8412, (1.802, 1.88)), speedup_cell(None)
    ('1.84x (1.80 to 1.88)', None)
    """
    if speedup is None:
        return None
    text = f"{speedup:#.3g}x"
    return f"{text} ({interval[0]:#.3g} to {interval[1]:#.3g})" if interval else text


# How a problem's own program measures, which has no yardstick.
MEASURED_ALONE = "measured alone"


# The parts of a composition, in the order shown when their shares are equal.
_PARTS = {
    "own_kernels": "own kernels",
    "own_code": "own code",
    "torch": "torch operators",
    "overhead": "overhead of Python and torch",
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "cutlass": "CUTLASS",
    "copies": "copies",
}


def composition_text(composition: Composition | None) -> str:
    """Describe what produced an answer, the largest part first.

    >>> composition_text(Composition(shares={"cublas": 0.13, "own_kernels": 0.87}))
    '87 % own kernels, 13 % cuBLAS'
    >>> composition_text(None)
    ''
    """
    if composition is None:
        return ""
    known = [(name, composition.shares.get(name, 0.0)) for name in _PARTS]
    parts = sorted((part for part in known if part[1] > 0), key=lambda part: -part[1])
    return ", ".join(f"{share_text(share)} {_PARTS[name]}" for name, share in parts)


def shortcuts_text(policy: ShortcutPolicy) -> str:
    """Describe what a problem does not allow; "" if it allows everything.

    >>> shortcuts_text(ShortcutPolicy(forbid=["torch.matmul", "cublas"], own_kernel="required"))
    'torch.matmul, cublas; a submission must define its own kernel'
    """
    own_kernel = "a submission must define its own kernel" if policy.own_kernel else ""
    forbidden = ", ".join(one_line(name, 100) for name in policy.forbid)
    return "; ".join(filter(None, (forbidden, own_kernel)))


def _rate_text(giga: float, unit: str) -> str:
    """Format a rate in a suitable unit, to three significant digits."""
    prefix, size = next((rate for rate in reversed(_RATES) if giga >= rate[1]), _RATES[0])
    return f"{giga / size:.3g} {prefix}{unit}"


RANKED = "ranked"


LINE_LENGTH_MAX = 300
LOG_LINES_MAX = 20


def shorten_line(line: str) -> str:
    """Cut a line that is too long to be read."""
    return line if len(line) <= LINE_LENGTH_MAX else line[: LINE_LENGTH_MAX - 1] + "…"


def printed_lines(run: AnyRun, lines_max: int = LOG_LINES_MAX) -> list[str]:
    r"""Return the last lines of the output below a heading; of a build the first lines, too.

    >>> printed_lines(Run(stage="check", log_head="1\n2\n3\n4\n5\n"), 4)
    ['it printed, at the end:', '  2', '  3', '  4', '  5']
    >>> printed_lines(Run(stage="build", log_head="$ g++ k.cpp\n2\n3\n4\nexit code 1\n"), 4)
    ['it printed:', '  $ g++ k.cpp', '  2', '  … 1 lines', '  4', '  exit code 1']
    """
    is_build = run.stage == "build"
    texts = (run.log_head, run.log_tail) if is_build else (run.log_tail or run.log_head,)
    lines = [line for text in texts for line in escape_control_characters(text).splitlines()]
    heading = "it printed:"
    if len(lines) > lines_max and is_build:
        # A compiler's command comes first, then its first error; the summary comes last.
        half = lines_max // 2
        left_out = len(lines) - 2 * half
        lines = [*lines[:half], f"… {left_out} lines", *lines[-half:]]
    elif len(lines) > lines_max:
        heading, lines = "it printed, at the end:", lines[-lines_max:]
    return [heading, *(f"  {shorten_line(line)}" for line in lines)] if lines else []


def note_lines(submission: FullSubmission) -> list[str]:
    """Return the owner's tag and note in one line, if there are any."""
    texts = [text for text in (submission.tag, submission.note) if text]
    return [f"noted: {' · '.join(texts)}"] if texts else []


def isolation_text(run: AnyRun) -> str:
    """Describe how a run was isolated and timed.

    >>> isolation_text(Run(level="medium", tier="C2", missing=["freezer"]))
    'isolation medium, timing tier C2; missing: freezer'
    """
    missing = f"; missing: {', '.join(map(one_line, run.missing))}" if run.missing else ""
    return f"isolation {run.level}, timing tier {run.tier}{missing}"
