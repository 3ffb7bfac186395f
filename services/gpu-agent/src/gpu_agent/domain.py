"""What an agent says of a run, from what its harness told."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from shared.errors import Refused
from shared.events import (
    DUEL,
    LEVELS,
    MODES,
    TIERS,
    AgentRegistered,
    Artefact,
    Blob,
    CaseResult,
    DuelResult,
    Fact,
    JobAssigned,
    Missing,
    RunCompleted,
    RunFailed,
    RunStarted,
    StageResult,
    is_at_least,
)
from shared.wire import encode

LOG_LENGTH_MAX = 8 * 1024
MESSAGE_LENGTH_MAX = 2000
MISMATCHES_MAX = 5
# An event has at most 256 KiB, its envelope included; texts are cut until it fits.
FACT_BYTES_MAX = 240 * 1024
PARTS = (1, 4, 16, 64, 256)
DEVICES = ("cpu", "cuda", "hip")
# Without these a harness refuses a duel.
DUEL_WALLS = ("namespaces", "freezer")


@dataclass(frozen=True)
class Machine:
    """What was found here, and on which device it is timed; `host` is the same for its agents."""

    harness: str
    level: str
    tier: str
    missing: list[Missing]
    toolchains: dict[str, str]
    environment: dict[str, str]
    memory_mib: int = 0
    host: str = ""
    sandbox_memory_mib: int = 0


@dataclass(frozen=True)
class Demand:
    """What an operator demands of ranked runs, and the device that all are timed on.

    `has_gpu_duels` offers duels on a GPU, where one side may leave work that slows the other.
    """

    level_min: str
    tiers: tuple[str, ...]
    device: str = "cpu"
    has_gpu_duels: bool = False


def demand(level_min: str, tiers: str, device: str = "cpu") -> Demand:
    """The demand that settings make; tiers apart by spaces. Errors: Refused."""
    if device not in DEVICES:
        raise Refused("bad_settings", f"DEVICE {device!r}: expected one of {', '.join(DEVICES)}")
    named = tuple(tiers.split())
    unknown = [tier for tier in named if tier not in TIERS]
    if level_min not in LEVELS or unknown:
        raise Refused(
            "bad_settings",
            f"LEVEL_MIN {level_min!r} and TIERS {tiers!r}: expected one of {', '.join(LEVELS)} "
            f"and some of {' '.join(TIERS)}",
        )
    return Demand(level_min, named, device)


def registration(
    gpu: str, machine: Machine, wanted: Demand, details: Mapping[str, str]
) -> AgentRegistered:
    """What this agent offers; below the demand it does not offer mode `ranked`, and says why."""
    said = "\n".join(f"{name}={value}" for name, value in sorted(machine.environment.items()))
    against = objection(machine, wanted)
    why = {"ranked_not_offered": against} if against else {}
    may_duel = wanted.device == "cpu" or wanted.has_gpu_duels
    duels = [DUEL] if may_duel and can_duel(machine) and not against else []
    return AgentRegistered(
        gpu=gpu,
        count=1,
        fingerprint=hashlib.sha256(said.encode()).hexdigest()[:16],
        level=machine.level,
        harness=machine.harness,
        details=machine.environment | dict(details) | why,
        tier=machine.tier,
        missing=machine.missing,
        toolchains=machine.toolchains,
        modes=[mode for mode in MODES if mode != "ranked" or not against] + duels,
        memory_mib=machine.memory_mib,
        host=machine.host,
        sandbox_memory_mib=machine.sandbox_memory_mib,
    )


def can_duel(machine: Machine) -> bool:
    """Whether two submissions can be kept apart here, and one stopped while the other runs.

    >>> can_duel(Machine("2", "weak", "C2", [Missing(wall="freezer", reason="", mend="")], {}, {}))
    False
    """
    return not any(one.wall in DUEL_WALLS for one in machine.missing)


def objection(machine: Machine, wanted: Demand) -> str:
    """Why this machine takes no ranked jobs; "" if it does.

    >>> machine = Machine("2", "weak", "C1", [Missing(wall="uid", reason="", mend="")], {}, {})
    >>> objection(machine, Demand("strong", ("C1",)))
    'isolation is weak, strong is demanded; missing: uid'
    """
    if not is_at_least(machine.level, wanted.level_min):
        walls = ", ".join(one.wall for one in machine.missing) or "nothing that is known"
        return f"isolation is {machine.level}, {wanted.level_min} is demanded; missing: {walls}"
    if machine.tier not in wanted.tiers:
        return f"the timing tier is {machine.tier}, demanded is one of {', '.join(wanted.tiers)}"
    return ""


@dataclass(frozen=True)
class Began:
    """The harness is up, bound to the key behind `key_commit`."""

    harness: str
    level: str
    tier: str
    key_commit: str
    missing: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A case is about to be run; told, not kept."""

    stage: str
    case: str
    done: int
    total: int


News = Began | StageResult | Step


@dataclass(frozen=True)
class Outcome:
    """The end of a run as the harness tells it; `failure_code` is set when it has no verdict.

    `has_passed_self_test`: after the failure a known kernel passed on this machine.
    """

    verdict: str
    stage: str
    reason: str
    took_s: float
    key: str
    cases: list[CaseResult]
    log_head: str
    log_tail: str
    failure_code: str = ""
    has_passed_self_test: bool = False
    usage: dict[str, float] = field(default_factory=dict)
    sigma_run: float = 0.0
    tie_us: float = 0.0
    duel: DuelResult | None = None


@dataclass(frozen=True)
class Kept:
    """What a run left, once it is kept as blobs."""

    log: Blob | None = None
    samples: Blob | None = None
    artefacts: list[Artefact] = field(default_factory=list)


def is_mine(order: JobAssigned, session: str) -> bool:
    """Whether the order is for this process; one for an earlier process of this agent is void."""
    return order.session == session


def is_member(order: JobAssigned, agent: str) -> bool:
    """Whether the order is only to be kept free: the first of its gang runs the job."""
    return bool(order.gang) and order.gang[0] != agent


def gpus_of(order: JobAssigned, own: int) -> list[int]:
    """The GPUs of a run's ranks, in order: a gang's are in its order, a single agent has its own.

    Of a gang that was not told them, which is one of processors, there are none.
    """
    return order.gpus or ([] if order.gang else [own])


def started(news: Began, fingerprint: str) -> RunStarted:
    """The event that binds a run to its key."""
    return RunStarted(
        fingerprint=fingerprint,
        harness=news.harness,
        level=news.level,
        tier=news.tier,
        key_commit=news.key_commit,
        missing=news.missing,
    )


def progress_message(news: Step | StageResult, stages: Sequence[StageResult]) -> bytes:
    """What is told of a run on its way and not kept: the case at hand and the stages that ended."""
    if isinstance(news, StageResult):
        news = Step(news.stage, "", news.cases, news.cases)
    said = {"stage": news.stage, "case": news.case, "done": news.done, "total": news.total}
    return msgspec.json.encode(said | {"stages": stages})


def ended(outcome: Outcome, environment: dict[str, str], kept: Kept) -> Fact:
    """RunCompleted with a verdict, RunFailed without."""
    if outcome.failure_code:
        return RunFailed(
            stage=outcome.stage,
            code=outcome.failure_code,
            reason=_bounded(outcome.reason, MESSAGE_LENGTH_MAX),
            has_passed_self_test=outcome.has_passed_self_test,
        )
    for part in PARTS:
        fact = _completed(outcome, environment, kept, part)
        if len(encode(fact)) <= FACT_BYTES_MAX:
            return fact
    raise AssertionError("a verdict without its texts is still too large for an event")


def _completed(
    outcome: Outcome, environment: dict[str, str], kept: Kept, part: int
) -> RunCompleted:
    """The verdict with every text cut to a part of its bound: an event has a size, too."""
    return RunCompleted(
        verdict=outcome.verdict,
        stage=outcome.stage,
        reason=_bounded(outcome.reason, MESSAGE_LENGTH_MAX // part),
        cases=[_cut(case, part) for case in outcome.cases],
        took_s=outcome.took_s,
        key=outcome.key,
        environment=environment,
        log_head=_bounded(outcome.log_head, LOG_LENGTH_MAX // part),
        log_tail=_bounded(outcome.log_tail, LOG_LENGTH_MAX // part),
        log=kept.log,
        samples=kept.samples,
        artefacts=kept.artefacts,
        usage=outcome.usage,
        sigma_run=outcome.sigma_run,
        tie_us=outcome.tie_us,
        duel=outcome.duel,
    )


def _cut(case: CaseResult, part: int) -> CaseResult:
    """A case with its texts cut; what only explains it goes when there is little room."""
    return msgspec.structs.replace(
        case,
        message=_bounded(case.message, MESSAGE_LENGTH_MAX // part),
        mismatches=case.mismatches[: MISMATCHES_MAX // part],
        statistics=case.statistics if part < PARTS[2] else {},
    )


def _bounded(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else text[: length_max - 1] + "…"
