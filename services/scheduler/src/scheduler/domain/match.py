"""Match jobs to agents: which agents fit, which are free, and why none does."""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from harness.vocabulary import DUEL
from scheduler.domain.state import Agent, Job, Offer, SchedulerState, World
from shared.events import AgentRegistered, is_at_least

NAMED_MAX = 3
# Runs in these modes change a leaderboard.
COUNTED_MODES = ("ranked", DUEL)
# A GPU's index on its host has at most this many digits.
INDEX_DIGITS_MAX = 3


class Need(NamedTuple):
    """What a job requires of an agent; jobs with equal needs are matched alike."""

    gpu: str
    mode: str
    is_canary: bool
    agent: str
    gpus: int
    memory_mib: int
    toolchains: tuple[str, ...]
    level: str
    sandbox_memory_mib: int
    excluded: tuple[str, ...]
    runner: str = ""
    instance: str = ""
    must_sign: bool = False
    release: str = ""


@dataclass(slots=True, eq=False)
class Candidate:
    """An agent that is alive: its offer, and what the log says about it.

    It takes `slot_count` runs at once. `free_slots` are the places of the slots for which it takes
    orders now, as both it and the log report: runs that only its heartbeat names are over for the
    log, but not for the agent. All are derived once, for there are many agents and many looks.
    """

    offer: Offer
    agent: Agent
    name: str = field(init=False)
    registration: AgentRegistered = field(init=False)
    slot_count: int = field(init=False)
    free_slots: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Derive what the rules ask for."""
        offer, self.name, self.registration = self.offer, self.offer.agent, self.offer.registration
        slots = self.agent.slots[: self.registration.slots]
        self.slot_count, self.free_slots = len(slots), []
        if offer.is_free and not any(slot.is_whole for slot in slots):
            free_slots = [place for place, slot in enumerate(slots) if not slot.run]
            ending_count = len(set(offer.runs) - set(self.agent.runs)) if offer.runs else 0
            self.free_slots = free_slots[: max(0, len(free_slots) - ending_count)]

    @property
    def gpu_index(self) -> int | None:
        """The index of its GPU on its host; None if the agent did not name it."""
        index = self.registration.details.get("gpu_index", "")
        return int(index) if index.isdecimal() and len(index) <= INDEX_DIGITS_MAX else None

    @property
    def is_free(self) -> bool:
        """Whether it may take an order now."""
        return bool(self.free_slots)

    @property
    def out_of_service(self) -> str:
        """The reason why it takes no jobs, "" if it takes them."""
        reported = self.registration.quarantine
        return self.agent.out_of_service or (f"in quarantine: {reported}" if reported else "")


def job_need(job: Job) -> Need:
    """Return what a job requires of an agent."""
    requires = job.requires
    return Need(
        job.gpu,
        job.mode,
        job.class_ == "canary",
        job.agent,
        requires.count,
        requires.memory_mib,
        tuple(requires.toolchains),
        requires.level,
        requires.sandbox_memory_mib,
        tuple(job.excluded_agents),
        requires.runner,
        job.instance,
        must_sign=job.mode in COUNTED_MODES or job.chunk is not None,
        release=requires.release,
    )


def list_candidates(state: SchedulerState, world: World) -> dict[str, list[Candidate]]:
    """Return the agents that are alive, by GPU type and ordered by name."""
    unknown = Agent()
    by_gpu: dict[str, list[Candidate]] = {}
    for name in sorted(world.offers):
        offer = world.offers[name]
        candidate = Candidate(offer, state.agents.get(name, unknown))
        by_gpu.setdefault(offer.registration.gpu, []).append(candidate)
    return by_gpu


def _gib(size_mib: int, *, is_need: bool) -> str:
    """Format a size; needs are rounded up and offers down, so that they never look the same.

    >>> _gib(6145, is_need=True), _gib(6143, is_need=False)
    ('6.1 GiB', '5.9 GiB')
    """
    tenths = -(-10 * size_mib // 1024) if is_need else 10 * size_mib // 1024
    return f"{tenths / 10:.1f}".removesuffix(".0") + " GiB"


def _explain_memory(need: Need, agents: Sequence[Candidate], field: str, purpose: str = "") -> str:
    offered = max(getattr(candidate.registration, field) for candidate in agents)
    needed = _gib(getattr(need, field), is_need=True)
    limit = f"the agents of {need.gpu} offer {_gib(offered, is_need=False)} at most"
    return f"needs {needed} of memory{purpose}, {limit}"


@cache
def _parse_release(release: str) -> tuple[int, ...]:
    """Return the numbers of a release in their order; none of one that is unknown.

    >>> _parse_release("0.10.0") > _parse_release("0.3.0") > _parse_release("")
    True
    """
    numbers = release.split(".")
    return tuple(map(int, numbers)) if all(map(str.isdecimal, numbers)) else ()


def _explain_toolchains(need: Need, agents: Sequence[Candidate]) -> str:
    missing = [
        name
        for name in need.toolchains
        if not any(name in candidate.registration.toolchains for candidate in agents)
    ]
    return f"no agent of {need.gpu} has toolchain {' and '.join(missing or need.toolchains)}"


def _is_allowed(need: Need, candidate: Candidate) -> bool:
    """Return whether an agent may take the job: one of a launcher, only what it was started for."""
    if candidate.agent.launcher:
        return candidate.name == need.instance
    return not need.runner and candidate.name not in need.excluded


def _explain_not_allowed(need: Need, agents: Sequence[Candidate]) -> str:
    if need.runner:
        return f"it waits for an agent that launcher {need.runner} starts"
    others = ", ".join(need.excluded or [candidate.name for candidate in agents[:NAMED_MAX]])
    return f"no agent of {need.gpu} is alive but {others}"


def _explain_out_of_service(need: Need, agents: Sequence[Candidate]) -> str:
    reasons = [
        f"{candidate.name} is {candidate.out_of_service or f'cordoned: {candidate.agent.cordon}'}"
        for candidate in agents[:NAMED_MAX]
    ]
    others = f", and {len(agents) - NAMED_MAX} more" if len(agents) > NAMED_MAX else ""
    return f"no agent of {need.gpu} is in service: {', '.join(reasons)}{others}"


Check = Callable[[Need, Candidate], bool]
Sentence = Callable[[Need, Sequence[Candidate]], str]


@cache
def _checks() -> tuple[tuple[Check, Sentence], ...]:
    """Return what an agent must pass, and what is said if none does; the first such one counts."""
    return (
        (
            lambda need, candidate: not need.agent or candidate.name == need.agent,
            lambda need, _: (
                f"agent {need.agent} is not alive"
                if need.agent
                else f"no agent of {need.gpu} is alive"
            ),
        ),
        (_is_allowed, _explain_not_allowed),
        (
            lambda need, candidate: (
                not candidate.out_of_service and (need.is_canary or not candidate.agent.cordon)
            ),
            _explain_out_of_service,
        ),
        (
            # An agent offers `ranked` only if it meets its own demand (level, timing tier).
            lambda need, candidate: need.mode in candidate.registration.modes,
            lambda need, _: f"no agent of {need.gpu} takes mode {need.mode}",
        ),
        (
            lambda need, candidate: candidate.registration.memory_mib >= need.memory_mib,
            lambda need, agents: _explain_memory(need, agents, "memory_mib"),
        ),
        (
            lambda need, candidate: (
                candidate.registration.sandbox_memory_mib >= need.sandbox_memory_mib
            ),
            lambda need, agents: _explain_memory(
                need, agents, "sandbox_memory_mib", " for the submission"
            ),
        ),
        (
            lambda need, candidate: all(
                name in candidate.registration.toolchains for name in need.toolchains
            ),
            _explain_toolchains,
        ),
        (
            lambda need, candidate: (
                _parse_release(candidate.registration.release) >= _parse_release(need.release)
            ),
            lambda need, _: (
                f"the problem has options that need agents of release {need.release} or later, "
                f"and those of {need.gpu} are older: upgrade them"
            ),
        ),
        (
            lambda need, candidate: (
                not need.level or is_at_least(candidate.registration.level, need.level)
            ),
            lambda need, _: f"no agent of {need.gpu} isolates at level {need.level}",
        ),
        (
            # Canaries may run on an agent that is not enrolled.
            lambda need, candidate: (
                not need.must_sign or need.is_canary or candidate.agent.is_enrolled
            ),
            lambda need, _: (
                f"no agent of {need.gpu} is enrolled, as ranked runs and evaluations need: "
                "warpboard agent enroll"
            ),
        ),
    )


def find_able_agents(need: Need, alive: Iterable[Candidate]) -> list[Candidate]:
    """Return the agents that fit, free or not; the number of GPUs is not checked here."""
    checks = [check for check, _ in _checks()]
    return [candidate for candidate in alive if all(check(need, candidate) for check in checks)]


def explain_no_match(need: Need, alive: Sequence[Candidate]) -> str:
    """Return why no live agent could take a job with this need, "" if one could, now or later."""
    agents = list(alive)
    for check, sentence in _checks():
        passed = [candidate for candidate in agents if check(need, candidate)]
        if not passed:
            return sentence(need, agents)
        agents = passed
    if need.gpus > 1 and not any(len(host) >= need.gpus for host in group_by_host(agents)):
        return f"no host has {need.gpus} agents of {need.gpu} that fit"
    return ""


def group_by_host(agents: Iterable[Candidate]) -> list[list[Candidate]]:
    """Group agents by host, one per GPU; an agent that names no host is alone."""
    hosts: dict[str, dict[int | str, Candidate]] = {}
    for candidate in agents:
        gpus = hosts.setdefault(candidate.registration.host or f" {candidate.name}", {})
        gpus.setdefault(
            candidate.name if candidate.gpu_index is None else candidate.gpu_index, candidate
        )
    return [list(gpus.values()) for gpus in hosts.values()]


def team_gpus(team: Sequence[Candidate]) -> list[int]:
    """Return the GPU index of each agent of a gang.

    Empty if an agent did not name its index, and for a single agent, which knows its own.
    """
    indexes = [candidate.gpu_index for candidate in team if candidate.gpu_index is not None]
    return indexes if len(indexes) == len(team) > 1 else []


class FreeSlot(NamedTuple):
    """A slot in which a job may begin: its agent, and its place among the agent's slots."""

    candidate: Candidate
    place: int


@dataclass
class FreeAgents:
    """The agents of a pool while jobs are leased: which of their slots are left.

    Of several agents, the one with the fewest runs comes first, then the first by name. A gang has
    its agents whole: all their slots.
    """

    alive: Sequence[Candidate]
    slots: dict[str, list[int]] = field(default_factory=dict)
    free_count: int = 0
    _fitting: dict[Need, list[Candidate]] = field(default_factory=dict)
    # Agents with the number of their runs when they were added, and their place by name.
    _free: dict[Need, list[tuple[int, int, Candidate]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots = {candidate.name: list(candidate.free_slots) for candidate in self.alive}
        self.free_count = sum(map(len, self.slots.values()))

    def take(self, need: Need, avoid: Sequence[str], *, needs_idle: bool = False) -> list[FreeSlot]:
        """Return a slot, or as many whole agents of one host as the job needs; empty if too few.

        Agents that failed the job before are avoided while another agent could take it, now or
        later. With `needs_idle`, the slot is of an agent that runs nothing.
        """
        if need not in self._free:
            # Mostly few agents of many are free.
            alive = (candidate for candidate in self.alive if self.slots[candidate.name])
            free = find_able_agents(need, alive)
            self._free[need] = [
                (self._count_runs(candidate), place, candidate)
                for place, candidate in enumerate(free)
            ]
            heapify(self._free[need])
        is_avoidable = bool(avoid) and self._is_enough(need, avoid)
        avoided = avoid if is_avoidable else ()
        if need.gpus == 1:
            candidate = self._find_free(need, avoided)
            if candidate is None or (needs_idle and self._count_runs(candidate)):
                return []
            return [self._take_slot(candidate)]
        team = self._find_gang(need, avoided)
        taken = [self._take_slot(candidate) for candidate in team]
        self._take_remaining(team)
        return taken

    def keep(self, need: Need) -> bool:
        """Reserve the free agents of the host on which most are free; false if no host fits."""
        fitting = find_able_agents(need, self.alive)
        hosts = [host for host in group_by_host(fitting) if len(host) >= need.gpus]
        if not hosts:
            return False
        best = max(hosts, key=lambda host: sum(bool(self.slots[agent.name]) for agent in host))
        self._take_remaining(best)
        return True

    def _list_fitting(self, need: Need) -> list[Candidate]:
        """Return the agents that fit, free or not."""
        if need not in self._fitting:
            self._fitting[need] = find_able_agents(need, self.alive)
        return self._fitting[need]

    def _take_slot(self, candidate: Candidate) -> FreeSlot:
        self.free_count -= 1
        return FreeSlot(candidate, self.slots[candidate.name].pop(0))

    def _take_remaining(self, candidates: Iterable[Candidate]) -> None:
        for candidate in candidates:
            self.free_count -= len(self.slots[candidate.name])
            self.slots[candidate.name] = []

    def _count_runs(self, candidate: Candidate) -> int:
        return candidate.slot_count - len(self.slots[candidate.name])

    def _find_free(self, need: Need, avoided: Container[str]) -> Candidate | None:
        """Return the agent with the fewest runs that has a free slot."""
        heap, free_candidate = self._free[need], None
        skipped: list[tuple[int, int, Candidate]] = []
        while heap and free_candidate is None:
            run_count, place, candidate = heap[0]
            current_count = self._count_runs(candidate)
            if not self.slots[candidate.name]:
                heappop(heap)
            elif current_count != run_count:
                heapreplace(heap, (current_count, place, candidate))
            elif candidate.name in avoided:
                skipped.append(heappop(heap))
            else:
                free_candidate = candidate
        for entry in skipped:
            heappush(heap, entry)
        return free_candidate

    def _find_gang(self, need: Need, avoided: Container[str]) -> list[Candidate]:
        """Return idle agents of one host, empty if no host has enough."""
        idle = (
            candidate
            for candidate in self._list_fitting(need)
            if self.slots[candidate.name]
            and not self._count_runs(candidate)
            # Others may know of slots that the log does not have yet.
            and candidate.slot_count == candidate.registration.slots
            and candidate.name not in avoided
        )
        hosts = [host for host in group_by_host(idle) if len(host) >= need.gpus]
        # The host with the least to spare: a larger gang may need the others whole.
        return min(hosts, key=len)[: need.gpus] if hosts else []

    def _is_enough(self, need: Need, avoid: Sequence[str]) -> bool:
        fitting = self._list_fitting(need)
        others = [candidate for candidate in fitting if candidate.name not in avoid]
        return any(len(host) >= need.gpus for host in group_by_host(others))
