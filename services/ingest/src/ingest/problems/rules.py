"""Problems: versions, visibility, deadlines and GPU types, and what may be published when."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce

from msgspec import structs

from harness.vocabulary import CPU_TYPE
from ingest.identity.caller import unknown_leaderboard
from ingest.problems.commands import Change, Check, ProblemCommand, Publish
from shared import events
from shared.blobs import describe_blob
from shared.embargo import AFTER_CLOSE, is_published
from shared.errors import Refused
from shared.event_log import Decider
from shared.problems.compilation import ProblemVersion
from shared.problems.goals import Baseline as CompiledBaseline
from shared.problems.roofline import floors_us
from shared.problems.submission_file import MEDIA, suffix

PUBLIC = "public"
JSON = "application/json"
# First path segments of the public API: a leaderboard with such a name could not be reached.
RESERVED = frozenset(
    (
        *("admin", "api", "auth", "docs", "gpus", "health", "healthz", "jobs", "leaderboards"),
        *("metrics", "profile", "readyz", "runner_queue", "static", "submission"),
        *("submission_count", "submissions", "user", "v1"),
    )
)

PRIVATE = "export it with private=true"


@dataclass(frozen=True)
class Problem:
    """The state of a problem; `published` is the newest version, None before any.

    `digests` maps version numbers to digests. `gpus` are the GPU types set for its leaderboards;
    until they are set, those of the newest version count. `gpus_ever` holds every GPU type that was
    ever open. `tested_gpus` are those on which a check ran the newest version.
    """

    published: events.ProblemPublished | None = None
    digests: Mapping[int, str] = field(default_factory=dict)
    visibility: str = PUBLIC
    deadline_at: datetime | None = None
    is_archived: bool = False
    gpus: tuple[str, ...] | None = None
    gpus_ever: frozenset[str] = frozenset()
    contest: str = ""
    has_practice: bool = False
    tested_gpus: frozenset[str] = frozenset()

    @property
    def open_gpus(self) -> tuple[str, ...]:
        """Return the GPU types that accept submissions."""
        own = () if self.published is None else tuple(self.published.gpus)
        return own if self.gpus is None else self.gpus

    @property
    def untested_gpus(self) -> list[str]:
        """Return the open GPU types on which nothing of the newest version was run."""
        return [gpu for gpu in self.open_gpus if gpu not in self.tested_gpus]


def decide(command: ProblemCommand, state: Problem) -> Sequence[events.Fact]:
    """Return the events; nothing if nothing changes. Raises `Refused`."""
    match command:
        case Publish():
            if command.is_first and state.published is not None:
                message = "somebody else just published a problem with this name: choose another"
                raise Refused("wrong_state", message, "slug")
            versions = _decide_version(command, state)
            after = reduce(evolve, versions, state)
            change = command.change
            if not versions:
                change = replace(change, tested_gpus=tuple(command.version.tested_gpus))
            changes = _decide_change(change, after, state.open_gpus)
            _check_tested(change, state, reduce(evolve, changes, after))
            # A new problem gets its settings first, so nobody sees it earlier than they may.
            is_there = state.published is not None
            return (*versions, *changes) if is_there else (*changes, *versions)
        case Change():
            changes = _decide_change(command, state, state.open_gpus)
            _check_tested(command, state, reduce(evolve, changes, state))
            return changes
    return () if state.is_archived else (command,)


def _decide_version(command: Publish, state: Problem) -> Sequence[events.Fact]:
    """Return a new version if the digest differs from the newest one."""
    newest = state.published
    if newest is not None and newest.digest == command.version.digest:
        return ()
    if command.objection is not None:
        raise command.objection
    return (structs.replace(command.version, number=newest.number + 1 if newest else 1),)


def _decide_change(
    command: Change, state: Problem, open_before: Sequence[str]
) -> Sequence[events.Fact]:
    """Return the change if there is one; `open_before` are the GPU types open until now."""
    gpus = None if command.gpus is None else canonical_gpus(command.gpus, sorted(state.gpus_ever))
    if state.gpus is None and gpus == state.open_gpus:
        gpus = None
    command = replace(command, gpus=gpus)
    after = _apply_change(state, command)
    _check_dropped(command, open_before, after.open_gpus)
    if after == state:
        return ()
    if state.contest and command.contest is None and after.deadline_at != state.deadline_at:
        message = f"this problem is in the contest {state.contest}, which sets its deadline"
        how = "change its contest.yml, and run `warpboard contest update`"
        raise Refused("wrong_state", f"{message}: {how}", "deadline_at")
    is_sooner = after.deadline_at is not None and (
        state.deadline_at is None or after.deadline_at < state.deadline_at
    )
    if command.is_no_sooner and is_sooner:
        message = "an earlier deadline reveals what others submitted: ask an operator"
        raise Refused("scope_missing", f"{message} (scope admin:problems)", "deadline_at")
    _check_deadline_ahead(command, state.deadline_at)
    return (
        events.LeaderboardChanged(
            visibility=command.visibility,
            has_deadline=command.has_deadline,
            deadline_at=command.deadline_at,
            gpus=None if gpus is None else list(gpus),
            reason=command.reason,
            contest=command.contest,
            has_practice=command.has_practice,
            tested_gpus=sorted(after.tested_gpus - state.tested_gpus),
        ),
    )


def _check_tested(change: Change, before: Problem, after: Problem) -> None:
    """Refuse leaderboards of which no GPU type was tested, unless that is allowed.

    One GPU type is enough: on others the same code may still fail, and their pages say so.
    """
    is_same = (after.published, after.open_gpus) == (before.published, before.open_gpus)
    if is_same or change.allows_untested or after.published is None:
        return
    if len(after.untested_gpus) < len(after.open_gpus):
        return
    message = f"this problem was not run on {', '.join(after.open_gpus)} when it was checked"
    message += ", so perhaps nothing can be judged there: publish it for CPU, too, where it was"
    message += " checked, or confirm with allow_untested (--allow-untested)"
    raise Refused("untested_gpus", message, "allow_untested")


def canonical_gpus(gpus: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return each GPU type once, in its first spelling. Raises `Refused` for an empty list."""
    if not gpus:
        raise Refused("unknown_gpu", "name at least one GPU type", "gpus")
    spelling = {gpu.lower(): gpu for gpu in (*reversed(gpus), *reversed(known))}
    return tuple(dict.fromkeys(spelling[gpu.lower()] for gpu in gpus))


def _check_dropped(command: Change, before: Sequence[str], after: Sequence[str]) -> None:
    """Refuse to close a GPU type that has entries, unless forced."""
    dropped = [gpu for gpu in before if gpu not in after and gpu in command.used]
    if dropped and not command.is_forced:
        message = f"{', '.join(dropped)} would be closed although it has entries"
        message += "; they stay readable: confirm with force"
        raise Refused("gpu_has_entries", message, "gpus")


def _check_deadline_ahead(command: Change, before: datetime | None) -> None:
    """Refuse a deadline in the past, unless forced: it is probably a typing error."""
    until, at = command.deadline_at, command.at
    if until is None or at is None or until > at or until == before or command.is_forced:
        return
    message = f"the deadline {until:%Y-%m-%d %H:%M} UTC has passed, so nothing could be submitted"
    message += ": choose a later one, or confirm with force"
    raise Refused("invalid_request", message, "deadline_at")


def _apply_change(state: Problem, change: Change | events.LeaderboardChanged) -> Problem:
    if change.visibility is not None:
        state = replace(state, visibility=change.visibility)
    if change.gpus is not None:
        state = replace(state, gpus=tuple(change.gpus))
    if change.has_deadline is not None:
        state = replace(state, deadline_at=change.deadline_at if change.has_deadline else None)
    if change.contest is not None:
        state = replace(state, contest=change.contest)
    if change.has_practice is not None:
        state = replace(state, has_practice=change.has_practice)
    return replace(state, tested_gpus=state.tested_gpus | frozenset(change.tested_gpus))


def evolve(state: Problem, fact: events.Fact) -> Problem:
    """Return the problem after one more event."""
    match fact:
        case events.ProblemPublished():
            digests = {**state.digests, fact.number: fact.digest}
            tested_gpus = frozenset(fact.tested_gpus)
            return _remember_gpus(
                replace(state, published=fact, digests=digests, tested_gpus=tested_gpus)
            )
        case events.LeaderboardChanged():
            return _remember_gpus(_apply_change(state, fact))
        case events.LeaderboardArchived():
            return replace(state, is_archived=True)
    return state


def _remember_gpus(state: Problem) -> Problem:
    return replace(state, gpus_ever=state.gpus_ever | frozenset(state.open_gpus))


PROBLEM_DECIDER = Decider[ProblemCommand, Problem, events.Fact](Problem(), decide, evolve)


def check_slug(slug: str) -> None:
    """Refuse a slug that is a route of the API."""
    if slug in RESERVED:
        message = f"the slug {slug!r} is reserved for routes of the API: choose another"
        raise Refused("bad_problem", message, "slug")


def newest_version(slug: str, state: Problem) -> events.ProblemPublished:
    """Return the newest version of a problem, with the GPU types that are open.

    Raises `Refused` (`unknown_leaderboard`).
    """
    if state.published is None:
        raise unknown_leaderboard(slug)
    return structs.replace(state.published, gpus=list(state.open_gpus))


def check_not_archived(slug: str, state: Problem) -> None:
    """Refuse a submission to an archived problem."""
    if state.is_archived:
        message = f"{slug} is archived: it accepts no submissions"
        raise Refused("deadline_passed", message, "problem")


def is_over(state: Problem, at: datetime) -> bool:
    """Return whether the deadline of a problem has passed."""
    return state.deadline_at is not None and at >= state.deadline_at


def check_in_time(slug: str, state: Problem, at: datetime) -> None:
    """Refuse a submission to an archived problem, and after the deadline without practice."""
    check_not_archived(slug, state)
    if state.deadline_at is not None and is_over(state, at) and not state.has_practice:
        message = f"the deadline of {slug} was {state.deadline_at.isoformat()}"
        raise Refused("deadline_passed", message, "problem")


def versions(facts: Iterable[events.Fact]) -> dict[int, events.ProblemPublished]:
    """Return every version of a problem, by number."""
    return {
        version.number: version for version in facts if isinstance(version, events.ProblemPublished)
    }


def released_versions(
    slug: str,
    state: Problem,
    versions_by_number: Mapping[int, events.ProblemPublished],
    at: datetime,
) -> dict[int, events.ProblemPublished]:
    """Return the versions whose submissions are public.

    Raises `Refused` (`private_only`) if there are none, saying when there will be.
    """
    if state.visibility != PUBLIC:
        raise Refused("private_only", f"{slug} is closed: {PRIVATE}", "private")
    released = {
        number: version
        for number, version in versions_by_number.items()
        if is_published(version.publish, state.deadline_at, at)
    }
    if released:
        return released
    if all(version.publish != AFTER_CLOSE for version in versions_by_number.values()):
        message = f"{slug} has publish: never: its submissions stay private"
    elif state.deadline_at is None:
        message = f"{slug} is published after its deadline, but it has none"
    else:
        message = f"{slug} is published from {state.deadline_at.isoformat()} on"
    raise Refused("private_only", f"{message}; {PRIVATE}", "private")


def version_event(version: ProblemVersion, check: Check) -> events.ProblemPublished:
    """Return the event of a version, with the digests its blobs will have."""
    needs = version.requires
    # GPU memory is not measured: on GPUs only the declared requirement counts.
    measured_mib = check.memory_mib if CPU_TYPE in version.gpus else 0
    return events.ProblemPublished(
        number=0,
        digest=version.digest,
        title=version.title,
        manifest=describe_blob(version.manifest, JSON),
        files={name: describe_blob(data) for name, data in version.files.items()},
        gpus=list(version.gpus),
        cases_count=dict(version.cases_count),
        ranking_by=version.ranking_by,
        budgets_s=dict(version.budgets_s),
        source_bytes_max=version.source_bytes_max,
        source_files_max=version.source_files_max,
        languages=list(version.languages),
        consent=version.consent,
        requires=events.Requires(
            count=needs.count,
            memory_mib=max(needs.memory_mib, measured_mib),
            toolchains=list(needs.toolchains),
            sandbox_memory_mib=needs.sandbox_memory_mib,
            release=needs.release,
        ),
        source_visible=version.source_visible,
        publish=version.publish,
        report=None if check.report is None else describe_blob(check.report, JSON),
        unchecked=check.unchecked,
        baselines=[baseline_event(entry) for entry in version.baselines],
        milestones=list(version.milestones),
        roofs=[
            events.Roof(
                case=work.case,
                bytes=work.bytes,
                flops=work.flops,
                dtype=work.dtype,
                # From the current table of GPU types.
                floors_us=floors_us(work),
                weight=work.weight,
            )
            for work in version.works
        ],
        lang=version.lang,
        tested_gpus=check.tested_gpus(version.digest),
    )


def baseline_source(baseline: CompiledBaseline) -> events.Blob:
    """Return the blob of a baseline's source."""
    digest = hashlib.sha256(baseline.data).hexdigest()
    return events.Blob(digest=digest, bytes=len(baseline.data), media=MEDIA[suffix(baseline.file)])


def baseline_event(baseline: CompiledBaseline) -> events.Baseline:
    """Return a baseline as its version's event holds it."""
    return events.Baseline(
        name=baseline.name,
        file=baseline.file,
        note=baseline.note,
        source=baseline_source(baseline),
        gpus=list(baseline.gpus),
        toolchains=list(baseline.toolchains),
    )
