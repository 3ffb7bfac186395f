"""What authors ask for: a problem's files made its newest version, with all its settings."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ingest.domain import problems
from ingest.domain.accounts import ACTOR
from ingest.domain.quotas import SetLimit
from ingest.domain.roofs import roofs
from ingest.service.baselines import Baselines, event_of, milestone_of, source_of
from ingest.service.boards import Boards, BoardWish
from ingest.service.decisions import By, Decisions, Wish
from ingest.service.gate import AccessFeed
from ingest.service.ports import Ports
from shared import subjects
from shared.blobs import named
from shared.errors import Refused
from shared.events import Fact, ProblemPublished, Requires
from shared.problems import ProblemVersion, compile_problem
from shared.problems.report import read_report, require_clean
from shared.problems.settings import UNSAID, Settings, with_settings

SLUG_LENGTH_MAX = 64
JSON = "application/json"
PROCESSOR = "CPU"
# An agent with less could not even hold a harness and a submission that imports torch.
USUAL_MEMORY_MIB = 2048


@dataclass(frozen=True)
class Check:
    """What is known of a problem's check: its report, or why there is none."""

    report: bytes | None = None
    unchecked: str = ""

    @property
    def memory_mib(self) -> int:
        """The memory that a machine must have for a run, as measured; 0 for what any has."""
        if self.report is None or self.unchecked:
            return 0
        try:
            measured = read_report(self.report).memory_mib
        except Refused:
            # The objection to it is raised where all others are.
            return 0
        return measured if measured > USUAL_MEMORY_MIB else 0

    def objection(self, digest: str) -> Refused | None:
        """What keeps a version from being published, None for nothing."""
        if self.unchecked:
            return None
        if self.report is None:
            what = (
                "a new version comes with the report of its check, in the field report: run "
                "`warpboard problem publish`, or `warpboard problem check` and send what it says"
            )
            return Refused("check_missing", what, "report")
        try:
            require_clean(read_report(self.report), digest)
        except Refused as refused:
            return refused
        return None


@dataclass(frozen=True)
class Publication:
    """The files of a problem, and all that is to be so of it; None of `change` is left as it is."""

    slug: str
    files: Mapping[str, bytes]
    check: Check = Check()
    settings: Settings = UNSAID
    change: problems.Change = problems.SO
    quotas: tuple[SetLimit, ...] = ()
    is_operator: bool = False

    @property
    def board(self) -> BoardWish:
        """What is to be so of its leaderboards."""
        return BoardWish(self.slug, self.change, self.quotas, self.is_operator)


@dataclass(frozen=True)
class Published:
    """A problem's newest version; `is_new` if this request made it."""

    slug: str
    number: int
    digest: str
    is_new: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Authors:
    """The commands of authors."""

    ports: Ports
    decisions: Decisions
    feed: AccessFeed
    boards: Boards
    baselines: Baselines

    async def publish(self, wanted: Publication, actor: str) -> Published:
        """Make these files the problem's newest version, and its leaderboards as they are to be.

        All of it is in the log, or nothing. Errors: Refused; Failed.
        """
        slug = wanted.slug
        version, wishes = await self._wishes(wanted, actor)
        # Nothing is kept of what is refused.
        await self.decisions.preview(wishes)
        await self._keep(version, wanted.check)
        made = await self.decisions.make_all(wishes, By(actor, slug))
        await self.feed.reach(made.seq, made.facts)
        # Whoever publishes the same again makes up for one that died here.
        await self.baselines.first(slug)
        return await self._published(wanted, version, made.facts)

    async def is_news(self, wanted: Publication, actor: str) -> bool:
        """Whether publishing this would make a version; nothing is done. Errors: as publish."""
        _, wishes = await self._wishes(wanted, actor)
        return _has_version(await self.decisions.preview(wishes))

    async def _wishes(self, wanted: Publication, actor: str) -> tuple[ProblemVersion, list[Wish]]:
        slug = wanted.slug
        if len(slug) > SLUG_LENGTH_MAX:
            raise Refused("bad_problem", f"a slug has at most {SLUG_LENGTH_MAX} characters", "slug")
        problems.check_slug(slug)
        version = await asyncio.to_thread(_compiled, wanted)
        command = await self._command(wanted, version, actor)
        gpus = problems.spelled(wanted.change.gpus or version.gpus, version.gpus)
        wish = Wish(subjects.problem(slug), problems.problems, command)
        return version, [wish, *wanted.board.limits(gpus)]

    async def _command(
        self, wanted: Publication, version: ProblemVersion, actor: str
    ) -> problems.Publish:
        slug, change = wanted.slug, replace(wanted.change, at=self.ports.clock())
        is_first = self._is_first(slug, actor)
        if not is_first:
            change = await self.boards.informed(wanted.board, version.gpus)
        objection = wanted.check.objection(version.digest)
        named = _named(version, wanted.check)
        return problems.Publish(named, change, is_first=is_first, objection=objection)

    async def _published(
        self, wanted: Publication, version: ProblemVersion, facts: Sequence[Fact]
    ) -> Published:
        slug, warnings, own = wanted.slug, version.warnings, set(version.gpus)
        state = await self.boards.problem(slug)
        newest = problems.known(slug, state)
        if wanted.change.gpus is None and set(newest.gpus) != own:
            said = ", ".join(newest.gpus)
            what = f"the leaderboard takes {said}, as it was told: not the gpus of the files"
            warnings = (*warnings, what)
        is_new = _has_version(facts)
        return Published(slug, newest.number, newest.digest, is_new, warnings)

    def _is_first(self, slug: str, actor: str) -> bool:
        """Whether an author makes a problem theirs by this. Errors: Refused for another's; Failed.

        Much may have happened since it was asked whether they may.
        """
        access, account = self.feed.now(), actor.removeprefix(ACTOR)
        board = access.boards.get(slug)
        if not actor.startswith(ACTOR) or "admin" in access.roles.get(account, ()):
            return False
        if board is None or not board.is_published:
            return True
        if board.owner != account:
            raise Refused("not_yours", f"{slug} is another author's", "problem")
        return False

    async def _keep(self, version: ProblemVersion, check: Check) -> None:
        """Blobs first, then the event that names them."""
        blobs = self.ports.blobs
        await blobs.put(version.manifest, JSON)
        for data in version.files.values():
            await blobs.put(data)
        for one in version.baselines:
            await blobs.put(one.data, source_of(one).media)
        if check.report is not None:
            await blobs.put(check.report, JSON)


def _has_version(facts: Sequence[Fact]) -> bool:
    return any(isinstance(one, ProblemPublished) for one in facts)


def _compiled(wanted: Publication) -> ProblemVersion:
    return compile_problem(wanted.slug, with_settings(wanted.files, wanted.settings))


def _named(version: ProblemVersion, check: Check) -> ProblemPublished:
    """The event of a version, its blobs named as they will be."""
    needs = version.requires
    # How many copies a GPU holds was never measured: there, what is declared counts alone.
    measured_mib = check.memory_mib if PROCESSOR in version.gpus else 0
    return ProblemPublished(
        number=0,
        digest=version.digest,
        title=version.title,
        manifest=named(version.manifest, JSON),
        files={name: named(data) for name, data in version.files.items()},
        gpus=list(version.gpus),
        cases_count=dict(version.cases_count),
        ranking_by=version.ranking_by,
        budgets_s=dict(version.budgets_s),
        source_bytes_max=version.source_bytes_max,
        languages=list(version.languages),
        consent=version.consent,
        requires=Requires(
            count=needs.count,
            memory_mib=max(needs.memory_mib, measured_mib),
            toolchains=list(needs.toolchains),
            sandbox_memory_mib=needs.sandbox_memory_mib,
        ),
        source_visible=version.source_visible,
        publish=version.publish,
        report=None if check.report is None else named(check.report, JSON),
        unchecked=check.unchecked,
        baselines=[event_of(one) for one in version.baselines],
        milestones=[milestone_of(one) for one in version.milestones],
        roofs=roofs(version.works),
    )
