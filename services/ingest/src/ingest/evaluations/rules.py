"""Rules of evaluations: which sources are admissible, and how much device time is left for them.

An evaluation reserves device time when it is accepted. When it is over, what its runs used takes
the place of what was reserved. Both count until the end of the day (UTC) of the request, on the
token that sent it and on its account.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import structs

from harness.vocabulary import EVALUATION_LEVEL_MIN, LEVELS, MODES, PASSED, STAGES
from ingest.quotas.rules import CATEGORIES, OPEN_RETRY_S, PhaseQuota, phase_bucket, window_end
from ingest.submissions import rules as submissions
from shared import events
from shared.api.evaluations import CachedVerdictFound, EvaluationItem, EvaluationResult
from shared.api.submissions import SubmissionRequest
from shared.errors import Refused
from shared.evaluations import JSON_LINES
from shared.events import Blob, CachedVerdict, Requires
from shared.problems.submission_file import Directives
from shared.source_files import ENTRY_STEM, SourceFile, pack_files

EVALUATION_MODES = ("test", "benchmark")
TEST = "test"
# More items save events; fewer let several agents share a small evaluation.
CHUNK_ITEMS = {TEST: 32, "benchmark": 16}
# How long items may wait for agents, which serve people first.
WAIT_S_MAX = 24 * 3600.0
# What an item reserves at most: nearly all need far less than the limits of their problem.
RESERVED_ITEM_S = 10.0
DAY_S = 86400.0
# Uses of earlier days are dropped; the margin covers clocks that differ a little.
KEPT_S = 600.0
BEST = "best"


@dataclass(frozen=True)
class EvaluationLimits:
    """What the settings allow: items per evaluation, device time per day, open evaluations."""

    items_max: int = 256
    token_s_per_day: float = DAY_S
    account_s_per_day: float = 4 * DAY_S
    open_max: int = 64


class DeviceTimeUse(NamedTuple):
    """What an evaluation reserved, or used if it is over, until the end of a day."""

    token: str
    device_s: float
    until_at: datetime
    is_over: bool = False


@dataclass(frozen=True)
class Budget:
    """The device time that an account's evaluations use."""

    uses: Mapping[str, DeviceTimeUse] = field(default_factory=dict)


def fold_budget(budget: Budget, facts: Iterable[events.Fact], at: datetime) -> Budget:
    """Return the budget after these events, without what counts no more."""
    uses = dict(budget.uses)
    for fact in facts:
        match fact:
            case events.DeviceTimeReserved():
                uses[fact.evaluation] = DeviceTimeUse(fact.token, fact.device_s, fact.until_at)
            case events.DeviceTimeShared():
                for shared in fact.uses:
                    use = DeviceTimeUse(
                        shared.token, shared.device_s, shared.until_at, is_over=True
                    )
                    uses.setdefault(shared.evaluation, use)
            case events.DeviceTimeSettled() if fact.evaluation in uses:
                use = uses[fact.evaluation]
                uses[fact.evaluation] = use._replace(device_s=fact.device_s, is_over=True)
    since = at - timedelta(seconds=KEPT_S)
    counted_uses = {
        id_: use for id_, use in uses.items() if use.until_at > since or not use.is_over
    }
    return Budget(counted_uses)


def reserve(
    budget: Budget,
    limits: EvaluationLimits,
    requested: events.EvaluationRequested,
    id_: str,
    at: datetime,
) -> events.DeviceTimeReserved:
    """Return what an evaluation reserves.

    Raises `Refused` (`quota_exceeded`, which says when there is more, or `too_many_open`).
    """
    open_count = sum(not use.is_over for use in budget.uses.values())
    if open_count >= limits.open_max:
        message = (
            f"{open_count} of your evaluations are not over, and at most {limits.open_max} may be "
            "at once: wait until one has ended, or cancel one"
        )
        raise Refused("too_many_open", message, retry_after_s=OPEN_RETRY_S)
    run_count = len(requested.sources) - len(requested.cached)
    device_s = round(run_count * min(requested.item_s_max, RESERVED_ITEM_S), 3)
    until_at = window_end(at, DAY_S)
    live = [use for use in budget.uses.values() if use.until_at > at]
    of_token_s = sum(use.device_s for use in live if use.token == requested.token)
    of_account_s = sum(use.device_s for use in live)
    for subject, used_s, limit_s in (
        ("this token", of_token_s, limits.token_s_per_day),
        ("your account", of_account_s, limits.account_s_per_day),
    ):
        if used_s + device_s > limit_s:
            message = (
                f"{subject} has used or reserved {used_s:,.0f} of {limit_s:,.0f} seconds of device "
                f"time for evaluations today, and this one may need {device_s:,.0f}: send fewer "
                f"items, wait until others have ended, or until {until_at:%Y-%m-%d %H:%M} UTC"
            )
            raise Refused("quota_exceeded", message, "items", (until_at - at).total_seconds())
    return events.DeviceTimeReserved(
        evaluation=id_, token=requested.token, device_s=device_s, until_at=until_at
    )


def check_items(items: Sequence[EvaluationItem], items_max: int) -> None:
    """Refuse too many items, and ids that do not tell items apart."""
    if len(items) > items_max:
        message = f"an evaluation has at most {items_max} items, this one has {len(items)}"
        raise Refused("invalid_request", message, "items")
    if len({item.id for item in items}) < len(items):
        raise Refused("invalid_request", "two items have the same id", "items")


def check_unlimited(quota: PhaseQuota | None, slug: str, mode: str) -> None:
    """Refuse an evaluation in a phase of a contest that limits submissions of its mode."""
    if quota is None:
        return
    bucket = phase_bucket(slug, quota.phase_name, CATEGORIES[mode])
    if quota.balance(bucket, quota.uses) is not None:
        message = f"the phase {quota.phase_name} of {quota.contest.title} limits {bucket}, which an"
        message += " evaluation would avoid: submit the sources one by one"
        raise Refused("not_supported", message, "mode")


def check_sources(
    request: SubmissionRequest,
    items: Sequence[EvaluationItem],
    slug: str,
    published: events.ProblemPublished,
) -> str:
    """Return the GPU type to run on. Raises `Refused` for the first source that is not admissible.

    Each source is checked as a submission would be, with the other fields of `request`.
    """
    gpu = submissions.choose_gpu(request.gpus[0] if request.gpus else None, Directives(), published)
    for item in items:
        own = item_request(request, item, gpu)
        try:
            submissions.parse_files(own, slug, published)
        except Refused as refused:
            message = f"item {item.id[:64]!r}: {refused.reason}"
            raise Refused(refused.code, message, "items") from refused
    return gpu


def item_request(request: SubmissionRequest, item: EvaluationItem, gpu: str) -> SubmissionRequest:
    """Return the submission request of one item."""
    entry, *others = item.files
    return SubmissionRequest(
        name=entry.name,
        source=entry.data,
        problem=request.problem,
        mode=request.mode,
        gpus=(gpu,),
        precision=request.precision,
        others=tuple(others),
    )


def required(
    items: Sequence[EvaluationItem], published: events.ProblemPublished, gpu: str
) -> Requires:
    """Return what an agent needs for all items, and how well it isolates.

    Raises `Refused` if that is several GPUs.
    """
    if published.requires.count > 1:
        message = "a problem of several GPUs takes no evaluations: submit to it one by one"
        raise Refused("not_supported", message, "problem")
    toolchains: dict[str, None] = {}
    for item in items:
        needed = submissions.required({item.name: item.source} | item.others, published, gpu)
        toolchains |= dict.fromkeys(needed.toolchains)
    level = max(published.requires.level or LEVELS[0], EVALUATION_LEVEL_MIN, key=LEVELS.index)
    return structs.replace(published.requires, toolchains=list(toolchains), level=level)


def item_s_max(mode: str, published: events.ProblemPublished) -> float:
    """Return how long an item may run: the budgets of its stages, and the time to start."""
    budgets_s = published.budgets_s
    stages_s = sum(budgets_s[STAGES[stage].budget or mode] for stage in MODES[mode].stages)
    return stages_s + submissions.STARTING_S_MAX


def source_digest(item: EvaluationItem) -> str:
    """Return what equal sources have in common: their files, and the language that runs them."""
    entry, *others = item.files
    suffix = item.name.rpartition(".")[2]
    # In a run the entry has one name, whatever its client calls it.
    blob = pack_files([SourceFile(ENTRY_STEM, entry.data), *others])
    return hashlib.sha256(f"{suffix}\n".encode() + blob).hexdigest()


def order_items(
    items: Sequence[EvaluationItem], found: Mapping[str, CachedVerdictFound]
) -> tuple[list[EvaluationItem], list[CachedVerdict]]:
    """Return the items in the order of an evaluation, and the verdicts of the last ones.

    `found` are the known verdicts by the digest of a source.
    """
    to_run = [item for item in items if source_digest(item) not in found]
    known = [item for item in items if source_digest(item) in found]
    verdicts = [found[source_digest(item)] for item in known]
    cached = [
        CachedVerdict(
            verdict=verdict.verdict,
            results=Blob(digest=verdict.results, bytes=0, media=JSON_LINES),
            line=verdict.line,
        )
        for verdict in verdicts
    ]
    return [*to_run, *known], cached


def deadline(requested_at: datetime, run_count: int, seconds: float) -> datetime:
    """Return when an evaluation ends in any case: its wait, and all its items on one agent."""
    return requested_at + timedelta(seconds=WAIT_S_MAX + run_count * seconds)


def find_best(results: Iterable[EvaluationResult]) -> EvaluationResult:
    """Return the best result: of those that passed, the one that is surely the fastest.

    Of results without a time, the first one. Raises `Refused` if none passed.
    """
    passed = [result for result in results if result.verdict == PASSED]
    if not passed:
        raise Refused("wrong_state", "no item of this evaluation has passed", "item")
    return max(passed, key=lambda result: result.interval[0] if result.interval else 0.0)
