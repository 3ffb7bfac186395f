"""Publishing contest files: all problems of one, each with its deadline and GPU types, or none."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from shared.clock import now
from shared.errors import Refused
from shared.problems.contest import Listed, deadline
from warpboard.domain import contests
from warpboard.domain.answers import read
from warpboard.domain.contests import SKIPPED, Plan, Told, Wanted
from warpboard.domain.outcome import FAILED, OK
from warpboard.domain.problems import Fields, Problem
from warpboard.domain.progress import News
from warpboard.domain.units import count_text
from warpboard.service import publishing
from warpboard.service.checking import Tools
from warpboard.service.compiling import Asked, compiled, compiled_on, digest_of, manifest_of
from warpboard.service.ports import Api, ProblemFiles, Reads, Voucher

UNKNOWN = "unknown_problem"
DEADLINE, GPU = "deadline", "gpu"
UNTOUCHED = Voucher()


@dataclass(frozen=True)
class How:
    """Whether it is only said what would be done; whether GPU types with entries may be dropped.

    By the same force a leaderboard is given a deadline that is over.
    """

    is_dry: bool = False
    is_forced: bool = False


@dataclass(frozen=True)
class Item:
    """A problem to publish; what its contest says of it, if it is in one, and what was asked."""

    folder: Path
    problem: ProblemFiles
    listed: Listed | None
    asked: Fields

    @property
    def wanted(self) -> Wanted:
        """How the problem is to be."""
        asked = str(self.asked.get(DEADLINE, ""))
        until = (self.listed.deadline_at if self.listed else None) or deadline(asked)
        lifted = [DEADLINE] if asked and not until else []
        return Wanted(
            self.problem.slug,
            digest_of(self.problem),
            self.gpus or manifest_of(self.problem)["gpus"],
            until,
            has_gpus=bool(self.gpus),
            others=[*lifted, *sorted(self.asked.keys() - {DEADLINE, GPU})],
        )

    @property
    def gpus(self) -> Sequence[str]:
        """The GPU types that are said of its leaderboards, whatever its files say."""
        return (self.listed.gpus if self.listed else ()) or self.asked.get(GPU, ())

    def fields(self) -> Fields:
        """What is said of it beside its files; the contest goes before what was asked for all."""
        until = self.wanted.deadline_at
        dated = {DEADLINE: f"{until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"} if until else {}
        return {**self.asked, **dated, **({GPU: list(self.gpus)} if self.gpus else {})}


async def add(api: Api, tools: Tools, asked: Asked, how: How) -> int:
    """Publish problems, and all those of contest files. Errors: Refused; Failed."""
    _check_ahead("", deadline(str(asked.fields.get(DEADLINE, ""))), how)
    entries = [(path, tools.disk.contest(path)) for path in asked.folders]
    if not how.is_dry and not any(listed for _, listed in entries):
        return await publishing.add(api, tools, asked, forced(how))
    if asked.slug is not None:
        raise Refused("usage", "--slug names one problem: of a contest the file names each")
    items = _compiled(tools, entries, asked)
    pairs = [(one, await _planned(api, one, how)) for one in items]
    told = Told() if how.is_dry else await _published(api, tools, pairs, asked, how)
    if how.is_dry:
        for _, plan in pairs:
            told.tell(plan)
    if asked.as_json:
        tools.screen.json(told.document(is_dry=how.is_dry))
    else:
        _say(tools, [plan for _, plan in pairs], told, how)
    return FAILED if told.errors else OK


def forced(how: How) -> dict[str, str]:
    """What says that GPU types with entries may be dropped, or a deadline may be over."""
    return {"force": "true"} if how.is_forced else {}


def _compiled(
    tools: Tools, entries: Sequence[tuple[Path, Sequence[Listed]]], asked: Asked
) -> list[Item]:
    """All of them; what is wrong with one is said, and then keeps all others back."""
    wanted: list[tuple[Path, Listed | None]] = []
    for path, listed in entries:
        wanted += [(Path(one.directory), one) for one in listed] or [(path, None)]
    found, bad = [], []
    for folder, one in wanted:
        if one and one.warning:
            tools.screen.note(f"{one.slug}: {one.warning}")
        try:
            slug, own = (one.slug, one.gpus) if one else (None, ())
            compile_it = compiled_on if own else compiled
            problem = compile_it(tools.disk, folder, slug, own or asked.gpus, asked.settings)
            found.append(Item(folder, problem, one, asked.fields))
        except Refused as refused:
            tools.screen.note(f"error: {refused.reason}")
            bad.append(one.slug if one else folder.name)
    if bad:
        count = count_text(len(wanted), "problem")
        what = f"{', '.join(bad)} of {count} cannot be read: mend what is said of each"
        raise Refused("bad_problem", f"{what}; nothing was published")
    _check_once([one.problem.slug for one in found])
    return found


def _check_once(slugs: Sequence[str]) -> None:
    twice = sorted({one for one in slugs if slugs.count(one) > 1})
    if twice:
        raise Refused("usage", f"{', '.join(twice)}: named twice; each is published once")


async def _planned(api: Reads, item: Item, how: How) -> Plan:
    """What is to be done about a problem. Errors: Refused, if that would take something away."""
    wanted = item.wanted
    try:
        there = read(await api.get("problems", wanted.slug), Problem)
    except Refused as refused:
        if refused.code != UNKNOWN:
            raise
        there = None
    if there is None or there.deadline_at != wanted.deadline_at:
        _check_ahead(wanted.slug, wanted.deadline_at, how)
    is_said = wanted.has_gpus or (there is not None and there.digest != wanted.digest)
    known = {one.lower() for one in wanted.gpus}
    for gpu in there.gpus if there and is_said and not how.is_forced else ():
        if gpu.lower() not in known and await _has_entries(api, wanted.slug, gpu):
            what = f"{wanted.slug}: GPU type {gpu} would be dropped, and has entries"
            raise Refused("gpu_has_entries", f"{what}: --force drops it; nothing was published")
    return contests.plan(wanted, there, now())


def _check_ahead(slug: str, until: datetime | None, how: How) -> None:
    """Refuse a new deadline that is over. Errors: Refused."""
    if until is not None and until <= now() and not how.is_forced:
        said = f"{slug}: the" if slug else "the"
        what = f"{said} deadline {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC is over"
        mend = "name one ahead, or say --force; nothing was published"
        raise Refused("deadline_over", f"{what}: {mend}", DEADLINE)


async def _has_entries(api: Reads, slug: str, gpu: str) -> bool:
    return bool((await api.get("leaderboards", slug, gpu, limit=1)).get("items"))


async def _published(
    api: Api, tools: Tools, pairs: Sequence[tuple[Item, Plan]], asked: Asked, how: How
) -> Told:
    """Publish what is to be, in order, after all of it was checked. Errors: Refused; Failed."""
    new = [(item.folder, item.problem) for item, plan in pairs if plan.is_new_version]
    vouchers = dict(
        zip(
            (problem.slug for _, problem in new),
            await publishing.vouched(tools, new, asked) if new else (),
            strict=True,
        )
    )
    told = Told()
    with tools.screen.live(["publish"]) as live:
        for done, (item, plan) in enumerate(pairs):
            if told.errors:
                told.skip(plan.slug, f"{told.errors[0]['name']} was refused before it")
            elif plan.head == SKIPPED:
                told.tell(plan)
            else:
                live.show("publish", News(plan.slug, done, len(pairs)))
                voucher = vouchers.get(plan.slug, UNTOUCHED)
                said = {**item.fields(), **forced(how)}
                await _publish(api, tools, (item, plan, voucher), said, told)
    return told


async def _publish(
    api: Api, tools: Tools, one: tuple[Item, Plan, Voucher], said: Fields, told: Told
) -> None:
    item, plan, voucher = one
    try:
        await publishing.publish(api, tools.screen, item.problem, voucher, said)
        told.tell(plan)
    except Refused as refused:
        told.errors.append({"name": plan.slug, "error": refused.reason})


def _say(tools: Tools, plans: Sequence[Plan], told: Told, how: How) -> None:
    """A line for each problem, in order, and one for all."""
    errors = {one["name"]: one["error"] for one in told.errors}
    skipped = {one["name"]: one["reason"] for one in told.skipped}
    for plan in plans:
        if plan.slug in errors:
            tools.screen.say(f"error    {plan.slug}: {errors[plan.slug]}")
        elif plan.slug in skipped:
            tools.screen.say(f"skipped  {plan.slug}: {skipped[plan.slug]}")
        else:
            tools.screen.say(f"{plan.head}  {plan.slug}: {plan.what}")
    if how.is_dry:
        tools.screen.note("nothing was published, nor checked: leave --dry-run out to do it")
