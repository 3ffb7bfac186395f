"""What an agent offers, which orders it takes, and how the end of a run fits an event."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from harness.vocabulary import CHECK, DUEL, EVALUATION_LEVEL_MIN, LEVELS, SUBMISSION_MODES, TIERS
from shared.errors import Refused
from shared.evaluations import ItemResult
from shared.events import (
    AgentRegistered,
    JobAssigned,
    Missing,
    RunCompleted,
    RunFailed,
    StageResult,
    is_at_least,
)
from shared.tracing import Attributes, Span, assignment_key, run_key
from shared.version import VERSION
from shared.wire import encode

LOG_LENGTH_MAX = 8 * 1024
MESSAGE_LENGTH_MAX = 2000
MISMATCHES_MAX = 5
# An event has at most 256 KiB, its envelope included; texts are cut until it fits.
FACT_BYTES_MAX = 240 * 1024
PARTS = (1, 4, 16, 64, 256)
Ended = TypeVar("Ended", RunCompleted, ItemResult)
DEVICES = ("cpu", "cuda", "hip")
# Without these a harness refuses a duel.
DUEL_WALLS = ("namespaces", "freezer")


@dataclass(frozen=True)
class Machine:
    """What was found on this machine; all its agents have the same `host`.

    It takes `slots` runs at once: one that has the device, and others that it builds meanwhile.
    """

    harness: str
    level: str
    tier: str
    missing: list[Missing]
    toolchains: dict[str, str]
    environment: dict[str, str]
    memory_mib: int = 0
    host: str = ""
    sandbox_memory_mib: int = 0
    slots: int = 1


@dataclass(frozen=True)
class Demand:
    """What an operator demands of ranked runs, and the device that all runs are timed on.

    `has_gpu_duels` offers duels on a GPU, where one side may leave work behind that slows the
    other.
    """

    level_min: str
    tiers: tuple[str, ...]
    device: str = "cpu"
    has_gpu_duels: bool = False


def parse_demand(
    level_min: str, tiers: str, device: str = "cpu", *, has_gpu_duels: bool = False
) -> Demand:
    """Parse the demand in the settings; `tiers` are separated by spaces. Raises Refused."""
    if device not in DEVICES:
        raise Refused("bad_settings", f"DEVICE {device!r}: expected one of {', '.join(DEVICES)}")
    tier_names = tuple(tiers.split())
    unknown = [tier for tier in tier_names if tier not in TIERS]
    if level_min not in LEVELS or unknown:
        raise Refused(
            "bad_settings",
            f"LEVEL_MIN {level_min!r} and TIERS {tiers!r}: expected one of {', '.join(LEVELS)} "
            f"and some of {' '.join(TIERS)}",
        )
    return Demand(level_min, tier_names, device, has_gpu_duels)


def required_level(mode: str, level_min: str, *, is_chunk: bool) -> str:
    """Return how much the run of an order must be isolated; `level_min` is the demand.

    >>> required_level("ranked", "strong", is_chunk=False)
    'strong'
    >>> [required_level("test", "strong", is_chunk=is_chunk) for is_chunk in (True, False)]
    ['medium', 'none']
    """
    if is_chunk:
        return EVALUATION_LEVEL_MIN
    return level_min if mode in ("ranked", DUEL) else "none"


def build_registration(
    gpu: str, machine: Machine, demand: Demand, details: Mapping[str, str]
) -> AgentRegistered:
    """Build this agent's offer; below the demand it omits mode `ranked` and gives the reason."""
    environment_text = "\n".join(
        f"{name}={value}" for name, value in sorted(machine.environment.items())
    )
    objection = explain_unranked(machine, demand)
    objection_detail = {"ranked_not_offered": objection} if objection else {}
    may_offer_duels = demand.device == "cpu" or demand.has_gpu_duels
    duels = [DUEL] if may_offer_duels and can_duel(machine) and not objection else []
    return AgentRegistered(
        gpu=gpu,
        count=1,
        fingerprint=hashlib.sha256(environment_text.encode()).hexdigest()[:16],
        level=machine.level,
        harness=machine.harness,
        details=machine.environment | dict(details) | objection_detail,
        tier=machine.tier,
        missing=machine.missing,
        toolchains=machine.toolchains,
        modes=[
            *(mode for mode in SUBMISSION_MODES if mode != "ranked" or not objection),
            *(CHECK, *duels),
        ],
        memory_mib=machine.memory_mib,
        host=machine.host,
        sandbox_memory_mib=machine.sandbox_memory_mib,
        slots=machine.slots,
        release=VERSION,
    )


def can_duel(machine: Machine) -> bool:
    """Return whether two submissions can be separated here, and one stopped while the other runs.

    >>> can_duel(Machine("2", "weak", "C2", [Missing(wall="freezer", reason="", fix="")], {}, {}))
    False
    """
    return not any(missing.wall in DUEL_WALLS for missing in machine.missing)


def explain_unranked(machine: Machine, demand: Demand) -> str:
    """Return why this machine takes no ranked jobs; "" if it does.

    >>> machine = Machine("2", "weak", "C1", [Missing(wall="uid", reason="", fix="")], {}, {})
    >>> explain_unranked(machine, Demand("strong", ("C1",)))
    'isolation is weak, strong is demanded; missing: uid'
    """
    if not is_at_least(machine.level, demand.level_min):
        walls = ", ".join(missing.wall for missing in machine.missing) or "nothing that is known"
        return f"isolation is {machine.level}, {demand.level_min} is demanded; missing: {walls}"
    if machine.tier not in demand.tiers:
        return f"the timing tier is {machine.tier}, demanded is one of {', '.join(demand.tiers)}"
    return ""


@dataclass(frozen=True)
class RunFiles:
    """The files of a run; `artefacts` are names, media types and bytes."""

    log: bytes = b""
    samples: bytes = b""
    artefacts: list[tuple[str, str, bytes]] = field(default_factory=list)


@dataclass(frozen=True)
class GpuReading:
    """The state of one GPU; None for values that its driver does not report."""

    index: str
    use_ratio: float | None
    memory_bytes: float | None
    temperature_celsius: float | None
    clock_hertz: float | None


def is_member(order: JobAssigned, agent: str) -> bool:
    """Return whether the agent only stays free because the first agent of its gang runs the job."""
    return bool(order.gang) and order.gang[0] != agent


def has_room(current_orders: Sequence[JobAssigned], slots: int, *, for_gang: bool) -> bool:
    """Return whether an agent that runs these orders takes another; a gang has it whole."""
    if for_gang or any(current.gang for current in current_orders):
        return not current_orders
    return len(current_orders) < slots


def run_gpus(order: JobAssigned, own: int) -> list[int]:
    """Return the GPUs of a run's ranks, in order; a single agent has its own.

    A gang without named GPUs runs on processors and has none.
    """
    return order.gpus or ([] if order.gang else [own])


def fit_event(event: RunCompleted | RunFailed) -> RunCompleted | RunFailed:
    """Cut the texts of a run's last event to their bounds, and further until it fits.

    The details of cases go first when there is little room.
    """
    if isinstance(event, RunFailed):
        return replace(event, reason=_truncate(event.reason, MESSAGE_LENGTH_MAX))
    for part in PARTS:
        fitting = _cut_texts(event, part)
        if len(encode(fitting)) <= FACT_BYTES_MAX:
            return fitting
    raise AssertionError("a verdict without its texts is still too large for an event")


def fit_item(result: ItemResult) -> ItemResult:
    """Cut the texts of an item's result, as those of a run's last event."""
    return _cut_texts(result, PARTS[0])


def _cut_texts(ended: Ended, part: int) -> Ended:
    """Cut the texts of a verdict to this part of their bounds."""
    cases = [
        replace(
            case,
            message=_truncate(case.message, MESSAGE_LENGTH_MAX // part),
            mismatches=case.mismatches[: MISMATCHES_MAX // part],
            statistics=case.statistics if part < PARTS[2] else {},
        )
        for case in ended.cases
    ]
    return replace(
        ended,
        reason=_truncate(ended.reason, MESSAGE_LENGTH_MAX // part),
        cases=cases,
        log_head=_truncate(ended.log_head, LOG_LENGTH_MAX // part),
        log_tail=_truncate(ended.log_tail, LOG_LENGTH_MAX // part),
    )


def _truncate(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


@dataclass
class Timeline:
    """When a run did what, in nanoseconds since 1970; `measured_ns` is when its harness ended.

    `end` is the verdict or the code of its failure, `error` why it has no verdict.
    """

    taken_ns: int = 0
    stage_ends_ns: list[int] = field(default_factory=list)
    measured_ns: int = 0
    ended_ns: int = 0
    end: str = ""
    error: str = ""


def run_spans(
    order: JobAssigned, run: str, timeline: Timeline, stages: Sequence[StageResult]
) -> list[Span]:
    """Return the spans of a run: its own, its stages, and the report of its result."""
    trace, parent = order.submission, run_key(run)
    attributes: Attributes = {"warpboard.end": timeline.end}
    began_ns, ended_ns = timeline.taken_ns, timeline.ended_ns
    spans = [
        Span(
            *(trace, parent, assignment_key(run), "run", began_ns, ended_ns),
            *("consumer", attributes, timeline.error),
        )
    ]
    for place, (stage, stage_ended_ns) in enumerate(
        zip(stages, timeline.stage_ends_ns, strict=True)
    ):
        stage_began_ns = stage_ended_ns - int(stage.took_s * 1e9)
        about: Attributes = {"warpboard.verdict": stage.verdict, "warpboard.cases": stage.cases}
        spans.append(
            Span(
                *(trace, f"{parent}/{place}", parent, f"stage {stage.stage}"),
                *(stage_began_ns, stage_ended_ns, "internal", about),
            )
        )
    if timeline.measured_ns:
        times = timeline.measured_ns, ended_ns
        spans.append(Span(trace, f"{parent}/report", parent, "store and report", *times))
    return spans
