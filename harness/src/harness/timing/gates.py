"""Whether the machine was fit: a pass on one that was not is thrown away, never corrected."""

from collections.abc import Callable, Mapping, Sequence

from harness.timing.history import History
from harness.timing.process import Plan, Process

_ATTEMPTS_MAX = 2


class Noisy(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The machine was unfit twice in a row: its fault, not the submission's."""


def deviation(references: Mapping[str, float], history: History) -> dict[str, float]:
    """By which fraction reference kernels are off the machine's rolling medians, where known."""
    usual = {name: history.reference_us(name) for name in references}
    return {name: references[name] / us - 1 for name, us in usual.items() if us is not None}


def beyond(deviations: Mapping[str, float], limits: Mapping[str, float]) -> list[str]:
    """The kernels that are further off than their limit.

    Slow and fast are alike: a limit of 1 is passed by twice the time, and by half of it.

    >>> beyond({"fma": 0.5, "copy": -0.51}, {"fma": 1.0, "copy": 1.0})
    ['copy']
    """
    return [
        name
        for name, off in deviations.items()
        if name in limits and max(1 + off, 1 / (1 + off)) > 1 + limits[name]
    ]


def settle(
    attempt: Callable[[], Process],
    plan: Plan,
    health: Callable[[], Sequence[str]],
    pause: Callable[[float], object],
) -> Process:
    """A pass on a fit machine: `attempt`, and once more after a pause if the machine was unfit.

    `health` says why the device is unfit now, nothing if it is fit; it is asked around a pass.
    Errors: Noisy, when the second pass is no better; whatever `attempt` raises.
    """
    reasons: list[str] = []
    for number in range(_ATTEMPTS_MAX):
        if number:
            pause(plan.policy.pause_s)
        reasons = list(health())
        if not reasons:
            process = attempt()
            reasons = [*health(), *_refusals(process, plan)]
            if not reasons:
                return process
    raise Noisy("the machine is not fit to time: " + "; ".join(reasons))


def _refusals(process: Process, plan: Plan) -> list[str]:
    off = process.deviation
    return [
        f"reference {name} is {100 * off[name]:+.2f} % off this machine's median"
        for name in beyond(off, plan.policy.refuse_at)
    ]
