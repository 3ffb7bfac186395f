"""What a seed means: who is struck when, and who submits what; pure, so the same plan each time."""

import random
from collections.abc import Iterator
from typing import NamedTuple

SERVERS = ("nats-server", "Postgres")
SERVICES = ("ingest", "ingest-2", "scheduler", "scheduler-2", "ranker", "ranker-2")
AGENTS = ("gpu-agent", "noop-0", "noop-1")
TARGETS = (*SERVERS, *SERVICES, *AGENTS)
# `warpboard up` gives up on what dies eight times in a minute.
REST_S_MIN = 9.0
STRIKES_A_SECOND = 1.2
KILLS_SHARE = 0.6
# Longer than an agent may be silent: its lease is lost, and it comes back as a zombie.
ZOMBIE_S = (6.0, 9.0)
FREEZE_S = (0.2, 2.5)
ZOMBIES_SHARE = 0.25
# Of the strikes at a server so many leave it running, but let it store nothing for a while.
FAULTS = {"nats-server": "fill", "Postgres": "read_only"}
FAULTS_SHARE = 0.25
FAULT_S = (0.5, 3.0)

PARTICIPANTS = 24
WISHES_A_SECOND = 6.0
GPUS = {"H100": 0.6, "T4": 0.34, "CPU": 0.06}
MODES = {"test": 0.5, "ranked": 0.4, "benchmark": 0.1}
KERNELS = {"honest": 0.85, "wrong": 0.15}
CANCELS_SHARE = 0.12
# Evaluations, whose items often are those of an earlier one; the largest ones have several chunks.
BATCHES_A_SECOND = 0.5
BATCH_ITEMS_MAX = 80
ITEMS_DIFFERENT = 2000
BATCH_GPUS = {"H100": 0.6, "T4": 0.4}

ACTS_A_SECOND = 0.12
ACT_S = (0.5, 3.0)
# What an operator does, and how it is undone.
ACTS = (
    ("pools/H100/pause", "pools/H100/resume"),
    ("pools/T4/pause", "pools/T4/resume"),
    ("intake/pause", "intake/resume"),
    ("agents/noop-0-1/drain", "agents/noop-0-1/release"),
    ("agents/noop-1-1/cordon", "agents/noop-1-1/release"),
)


class Limit(NamedTuple):
    """A quota that is set before anything begins; everybody's, if it names nobody."""

    participant: str | None
    bucket: str
    limit: int
    window_s: float


LIMITS = (
    Limit(None, "identity.*.ranked", 4, 20.0),
    Limit("p0", "identity.*.*", 4, 20.0),
    Limit("p1", "identity.H100.ranked", 2, 15.0),
    Limit("p2", "*.*.test", 3, 30.0),
    Limit("p3", "identity.*.ranked", 50, 3600.0),
)


class Strike(NamedTuple):
    """What happens to a process: killed, frozen for a while, or kept from storing anything."""

    at_s: float
    what: str
    whom: str
    for_s: float = 0.0


class Wish(NamedTuple):
    """A submission that a participant wants, and after how long he thinks better of it."""

    at_s: float
    participant: str
    gpu: str
    mode: str
    kernel: str
    key: str
    cancel_after_s: float | None


class Batch(NamedTuple):
    """An evaluation that a participant wants; `items` are numbers, each of one source."""

    at_s: float
    participant: str
    gpu: str
    items: tuple[int, ...]
    key: str
    cancel_after_s: float | None


class Act(NamedTuple):
    """What the operator does."""

    at_s: float
    path: str


class Plan(NamedTuple):
    """All that a seed decides."""

    seed: int
    seconds: float
    strikes: list[Strike]
    wishes: list[Wish]
    batches: list[Batch]
    acts: list[Act]


def plan(seed: int, seconds: float) -> Plan:
    """The plan of a seed for so long."""
    return Plan(
        seed,
        seconds,
        strikes=list(_strikes(seed, seconds)),
        wishes=list(_wishes(seed, seconds)),
        batches=list(_batches(seed, seconds)),
        acts=list(_acts(seed, seconds)),
    )


def _strikes(seed: int, seconds: float) -> Iterator[Strike]:
    dice = random.Random(f"{seed}/strikes")
    rested_at = dict.fromkeys(TARGETS, 0.0)
    at_s = 1.0
    while (at_s := at_s + dice.expovariate(STRIKES_A_SECOND)) < seconds:
        strike = _strike(dice, at_s)
        if rested_at[strike.whom] <= at_s:
            rested_at[strike.whom] = at_s + strike.for_s + REST_S_MIN
            yield strike


def _strike(dice: random.Random, at_s: float) -> Strike:
    whom = dice.choice(TARGETS)
    if whom in FAULTS and dice.random() < FAULTS_SHARE:
        return Strike(round(at_s, 3), FAULTS[whom], whom, round(dice.uniform(*FAULT_S), 3))
    if dice.random() < KILLS_SHARE:
        return Strike(round(at_s, 3), "kill", whom)
    is_long = dice.random() < ZOMBIES_SHARE
    for_s = round(dice.uniform(*(ZOMBIE_S if is_long else FREEZE_S)), 3)
    return Strike(round(at_s, 3), "freeze", whom, for_s)


def _wishes(seed: int, seconds: float) -> Iterator[Wish]:
    dice = random.Random(f"{seed}/wishes")
    at_s = 0.0
    while (at_s := at_s + dice.expovariate(WISHES_A_SECOND)) < seconds:
        is_cancelled = dice.random() < CANCELS_SHARE
        yield Wish(
            at_s=round(at_s, 3),
            participant=f"p{dice.randrange(PARTICIPANTS)}",
            gpu=_drawn(dice, GPUS),
            mode=_drawn(dice, MODES),
            kernel=_drawn(dice, KERNELS),
            key=f"{seed}-{dice.getrandbits(64):016x}",
            cancel_after_s=round(dice.uniform(0.0, 2.0), 3) if is_cancelled else None,
        )


def _batches(seed: int, seconds: float) -> Iterator[Batch]:
    dice = random.Random(f"{seed}/batches")
    at_s = 0.0
    while (at_s := at_s + dice.expovariate(BATCHES_A_SECOND)) < seconds:
        is_cancelled = dice.random() < CANCELS_SHARE
        count = dice.randint(1, BATCH_ITEMS_MAX)
        yield Batch(
            at_s=round(at_s, 3),
            participant=f"p{dice.randrange(PARTICIPANTS)}",
            gpu=_drawn(dice, BATCH_GPUS),
            items=tuple(dice.sample(range(ITEMS_DIFFERENT), count)),
            key=f"{seed}-{dice.getrandbits(64):016x}",
            cancel_after_s=round(dice.uniform(0.0, 2.0), 3) if is_cancelled else None,
        )


def _acts(seed: int, seconds: float) -> Iterator[Act]:
    """One thing after the other, each undone before the next begins."""
    dice = random.Random(f"{seed}/acts")
    at_s = 2.0
    while (at_s := at_s + dice.expovariate(ACTS_A_SECOND)) < seconds:
        done, undone = dice.choice(ACTS)
        yield Act(round(at_s, 3), done)
        at_s += dice.uniform(*ACT_S)
        yield Act(round(at_s, 3), undone)


def _drawn(dice: random.Random, weights: dict[str, float]) -> str:
    return dice.choices(list(weights), list(weights.values()))[0]
