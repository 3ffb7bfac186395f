"""Which agents fit a job, which of them are free, and why none does."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.domain.board import Agent, Board, Job
from scheduler.domain.moves import Offer, World
from shared.events import DUEL, AgentRegistered, is_at_least

NAMED_MAX = 3
# What these modes find changes a leaderboard.
COUNTING = ("ranked", DUEL)
# Of so many digits is the number of a GPU on its host at most.
INDEX_DIGITS_MAX = 3


class Need(NamedTuple):
    """What a job asks of an agent; jobs that need the same are matched alike."""

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


@dataclass(frozen=True)
class Candidate:
    """An agent that is alive: what it offers, and what the log says of it."""

    offer: Offer
    agent: Agent

    @property
    def name(self) -> str:
        """Its id."""
        return self.offer.agent

    @property
    def said(self) -> AgentRegistered:
        """What it offers."""
        return self.offer.registration

    @property
    def gpu_index(self) -> int | None:
        """Which GPU of its host it has, None if it did not say so."""
        told = self.said.details.get("gpu_index", "")
        return int(told) if told.isdecimal() and len(told) <= INDEX_DIGITS_MAX else None

    @property
    def is_free(self) -> bool:
        """Whether it may take an order now: it says so, and the log knows of no open run."""
        return self.offer.is_free and not self.agent.run

    @property
    def out_of_service(self) -> str:
        """Why it takes nothing at all, "" if it may."""
        own = self.said.quarantine
        return self.agent.out_of_service or (f"in quarantine: {own}" if own else "")


def need_of(job: Job) -> Need:
    """What a job asks for."""
    asked = job.requires
    return Need(
        job.gpu,
        job.mode,
        job.class_ == "canary",
        job.agent,
        asked.count,
        asked.memory_mib,
        tuple(asked.toolchains),
        asked.level,
        asked.sandbox_memory_mib,
        tuple(job.excluded),
    )


def candidates(board: Board, world: World) -> dict[str, list[Candidate]]:
    """The agents that are alive, by GPU type and in the order of their names."""
    unknown = Agent()
    found: dict[str, list[Candidate]] = {}
    for name in sorted(world.offers):
        offer = world.offers[name]
        one = Candidate(offer, board.agents.get(name, unknown))
        found.setdefault(offer.registration.gpu, []).append(one)
    return found


Check = Callable[[Need, Candidate], bool]
Sentence = Callable[[Need, Sequence[Candidate]], str]


def _is_alive(need: Need, one: Candidate) -> bool:
    return not need.agent or one.name == need.agent


def _is_not_excluded(need: Need, one: Candidate) -> bool:
    return one.name not in need.excluded


def _is_in_service(need: Need, one: Candidate) -> bool:
    return not one.out_of_service and (need.is_canary or not one.agent.cordon)


def _takes_mode(need: Need, one: Candidate) -> bool:
    # What an agent demands of itself for `ranked` (level, timing tier) is behind its answer.
    return need.mode in one.said.modes


def _answers_for_it(need: Need, one: Candidate) -> bool:
    """What counts is signed by an agent that somebody answers for; a canary counts for nobody."""
    return need.mode not in COUNTING or need.is_canary or one.agent.is_enrolled


def _has_memory(need: Need, one: Candidate) -> bool:
    return one.said.memory_mib >= need.memory_mib


def _has_sandbox_memory(need: Need, one: Candidate) -> bool:
    return one.said.sandbox_memory_mib >= need.sandbox_memory_mib


def _has_toolchains(need: Need, one: Candidate) -> bool:
    return all(name in one.said.toolchains for name in need.toolchains)


def _isolates(need: Need, one: Candidate) -> bool:
    return not need.level or is_at_least(one.said.level, need.level)


def _short_of_memory(need: Need, left: Sequence[Candidate]) -> str:
    offered = _gib(max(one.said.memory_mib for one in left), is_need=False)
    needed = _gib(need.memory_mib, is_need=True)
    return f"needs {needed} of memory, the agents of {need.gpu} offer {offered} at most"


def _short_of_sandbox_memory(need: Need, left: Sequence[Candidate]) -> str:
    offered = _gib(max(one.said.sandbox_memory_mib for one in left), is_need=False)
    needed = _gib(need.sandbox_memory_mib, is_need=True)
    sandbox = f"the agents of {need.gpu} offer {offered} at most"
    return f"needs {needed} of memory for the submission, {sandbox}"


def _gib(size_mib: int, *, is_need: bool) -> str:
    """A size; a need is rounded up and an offer down, so that they never look the same.

    >>> _gib(6145, is_need=True), _gib(6143, is_need=False)
    ('6.1 GiB', '5.9 GiB')
    """
    tenths = -(-10 * size_mib // 1024) if is_need else 10 * size_mib // 1024
    return f"{tenths / 10:.1f}".removesuffix(".0") + " GiB"


def _lost_toolchain(need: Need, left: Sequence[Candidate]) -> str:
    missing = [
        name for name in need.toolchains if not any(name in one.said.toolchains for one in left)
    ]
    return f"no agent of {need.gpu} has toolchain {' and '.join(missing or need.toolchains)}"


def _why_excluded(need: Need, _: Sequence[Candidate]) -> str:
    return f"no agent of {need.gpu} is alive but {', '.join(need.excluded)}"


def _why_out(need: Need, left: Sequence[Candidate]) -> str:
    told = [
        f"{one.name} is {one.out_of_service or f'cordoned: {one.agent.cordon}'}"
        for one in left[:NAMED_MAX]
    ]
    others = f", and {len(left) - NAMED_MAX} more" if len(left) > NAMED_MAX else ""
    return f"no agent of {need.gpu} is in service: {', '.join(told)}{others}"


# In the order in which they are told: the first that leaves nobody is the reason.
_CHECKS: tuple[tuple[Check, Sentence], ...] = (
    (
        _is_alive,
        lambda need, _: (
            f"agent {need.agent} is not alive" if need.agent else f"no agent of {need.gpu} is alive"
        ),
    ),
    (_is_not_excluded, _why_excluded),
    (_is_in_service, _why_out),
    (_takes_mode, lambda need, _: f"no agent of {need.gpu} takes mode {need.mode}"),
    (_has_memory, _short_of_memory),
    (_has_sandbox_memory, _short_of_sandbox_memory),
    (_has_toolchains, _lost_toolchain),
    (_isolates, lambda need, _: f"no agent of {need.gpu} isolates at level {need.level}"),
    (
        _answers_for_it,
        lambda need, _: (
            f"no agent of {need.gpu} is enrolled, as ranked runs need: warpboard agent enroll"
        ),
    ),
)


def able(need: Need, alive: Iterable[Candidate]) -> list[Candidate]:
    """Those that fit, free or not; several GPUs are not looked at here."""
    checks = [check for check, _ in _CHECKS]
    return [one for one in alive if all(check(need, one) for check in checks)]


def objection(need: Need, alive: Sequence[Candidate]) -> str:
    """Why nobody who is alive could take it, "" if somebody could, now or later."""
    left = list(alive)
    for check, sentence in _CHECKS:
        passed = [one for one in left if check(need, one)]
        if not passed:
            return sentence(need, left)
        left = passed
    if need.gpus > 1 and not any(len(host) >= need.gpus for host in by_host(left)):
        return f"no host has {need.gpus} agents of {need.gpu} that fit"
    return ""


def by_host(found: Iterable[Candidate]) -> list[list[Candidate]]:
    """Those that share a host, one for each of its GPUs; who does not name its host is alone."""
    hosts: dict[str, dict[int | str, Candidate]] = {}
    for one in found:
        gpus = hosts.setdefault(one.said.host or f" {one.name}", {})
        gpus.setdefault(one.name if one.gpu_index is None else one.gpu_index, one)
    return [list(gpus.values()) for gpus in hosts.values()]


def gpus_of(team: Sequence[Candidate]) -> list[int]:
    """Which GPU of their host each has; empty if anyone did not say so, or where one works alone.

    A single agent knows its own.
    """
    found = [one.gpu_index for one in team if one.gpu_index is not None]
    return found if len(found) == len(team) > 1 else []


@dataclass
class Hands:
    """The agents of a pool while orders are given out: who is free, and who was used."""

    alive: Sequence[Candidate]
    used: set[str] = field(default_factory=set)
    _able: dict[Need, list[Candidate]] = field(default_factory=dict)
    _free: dict[Need, list[Candidate]] = field(default_factory=dict)
    free_count: int = 0

    def __post_init__(self) -> None:
        """Count those who are free."""
        self.free_count = sum(1 for one in self.alive if one.is_free)

    def take(self, need: Need, avoid: Sequence[str]) -> list[Candidate]:
        """As many free agents as it needs, on one host; empty if they are not free together.

        Who failed the job before is avoided while another could take it, now or later.
        """
        free = self._free_for(need)
        if not free:
            return []
        wanted = self._without(need, avoid) if avoid else None
        team = self._team(need, free, wanted)
        self.used.update(one.name for one in team)
        self.free_count -= len(team)
        return team

    def keep(self, need: Need) -> bool:
        """Keep the free agents of the one host for it where most are free already.

        Whether there is such a host.
        """
        fit = able(need, self.alive)
        hosts = [host for host in by_host(fit) if len(host) >= need.gpus]
        if not hosts:
            return False
        best = max(hosts, key=lambda host: sum(self._is_left(one) for one in host))
        kept = [one.name for one in best if self._is_left(one)]
        self.used.update(kept)
        self.free_count -= len(kept)
        return True

    def _is_left(self, one: Candidate) -> bool:
        return one.is_free and one.name not in self.used

    def _free_for(self, need: Need) -> list[Candidate]:
        if need not in self._free:
            self._able[need] = able(need, self.alive)
            # Taken from the end, so that the first by name comes first.
            self._free[need] = [one for one in reversed(self._able[need]) if one.is_free]
        free = self._free[need]
        while free and free[-1].name in self.used:
            free.pop()
        return free

    def _without(self, need: Need, avoid: Sequence[str]) -> set[str] | None:
        """The names of those who fit and did not fail; None if there are too few of them."""
        others = [one for one in self._able[need] if one.name not in avoid]
        is_enough = any(len(host) >= need.gpus for host in by_host(others))
        return {one.name for one in others} if is_enough else None

    def _team(
        self, need: Need, free: Sequence[Candidate], wanted: set[str] | None
    ) -> list[Candidate]:
        left = (
            one
            for one in reversed(free)
            if one.name not in self.used and (wanted is None or one.name in wanted)
        )
        if need.gpus == 1:
            return [one for one, _ in zip(left, range(1), strict=False)]
        hosts = [host for host in by_host(left) if len(host) >= need.gpus]
        # The host with the least to spare: a larger gang may need the others whole.
        return min(hosts, key=len)[: need.gpus] if hosts else []
