"""A report as a table for people."""

from collections import Counter

from tests.system.chaos.ordeal import Report

FOUND_MAX = 10


def table(report: Report) -> str:
    """What was done, what became of it, and each invariant with what broke it."""
    plan = report.plan
    lines = [
        f"seed {plan.seed}: {plan.seconds:g} s of chaos, {report.took_s:.0f} s in all",
        f"  {len(plan.wishes)} submissions wished for, {report.accepted} accepted",
        f"  {len(plan.batches)} evaluations wished for, {report.accepted_batches} accepted",
        f"  {report.retries} requests repeated, {sum(report.types.values())} events",
        f"  the longest wait for an answer: {report.waited_s_max:.1f} s",
        _counts("struck", report.struck),
        _counts("restarts", Counter(report.restarts)),
        _counts("answers", report.answers),
        _counts("refused", report.refused),
        _counts("outcomes", report.outcomes),
        _counts("events", report.types),
        *(line for name in report.found for line in _judged(name, report.found[name])),
    ]
    return "\n".join(lines)


def _counts(name: str, counts: "Counter[str]") -> str:
    said = ", ".join(f"{key} {count}" for key, count in sorted(counts.items()) if count)
    return f"  {name}: {said or 'none'}"


def _judged(name: str, found: list[str]) -> list[str]:
    if not found:
        return [f"  held    {name}"]
    more = [f"          … and {len(found) - FOUND_MAX} more"] if len(found) > FOUND_MAX else []
    return [f"  BROKEN  {name}", *(f"          {one}" for one in found[:FOUND_MAX]), *more]


def repeat(report: Report) -> str:
    """The command that makes the same plan again."""
    return f"make chaos CHAOS_SEED={report.plan.seed} CHAOS_S={report.plan.seconds:g}"
