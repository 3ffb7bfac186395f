"""What authors ask for: a problem's files made its newest version."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from ingest.domain import problems
from ingest.domain.accounts import ACTOR
from ingest.service.decisions import By, Decisions
from ingest.service.gate import AccessFeed
from ingest.service.ports import Ports
from shared import subjects
from shared.errors import Refused
from shared.events import ProblemPublished, Requires
from shared.problems import ProblemVersion, compile_problem

SLUG_LENGTH_MAX = 64


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

    async def publish(
        self, slug: str, files: Mapping[str, bytes], actor: str, visibility: str | None = None
    ) -> Published:
        """Make these files the problem's newest version, seen by these from its first moment on.

        Errors: Refused; Failed.
        """
        if len(slug) > SLUG_LENGTH_MAX:
            raise Refused("bad_problem", f"a slug has at most {SLUG_LENGTH_MAX} characters", "slug")
        problems.check_slug(slug)
        version = await asyncio.to_thread(compile_problem, slug, files)
        kept = await self._keep(version)
        command = problems.Publish(kept, visibility, is_first=self._is_first(slug, actor))
        agg = subjects.problem(slug)
        made = await self.decisions.make(agg, problems.problems, command, By(actor, slug))
        await self.feed.reach(made.seq)
        is_new = isinstance(made.fact, ProblemPublished)
        newest = made.fact
        if not isinstance(newest, ProblemPublished):
            history = await self.ports.log.history(agg)
            newest = problems.known(slug, problems.problems.fold(one.fact for one in history))
        return Published(slug, newest.number, newest.digest, is_new, version.warnings)

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

    async def _keep(self, version: ProblemVersion) -> ProblemPublished:
        """Blobs first, then the event that names them."""
        blobs, needs = self.ports.blobs, version.requires
        return ProblemPublished(
            number=0,
            digest=version.digest,
            title=version.title,
            manifest=await blobs.put(version.manifest, "application/json"),
            files={name: await blobs.put(data) for name, data in version.files.items()},
            gpus=list(version.gpus),
            cases_count=dict(version.cases_count),
            ranking_by=version.ranking_by,
            budgets_s=dict(version.budgets_s),
            source_bytes_max=version.source_bytes_max,
            languages=list(version.languages),
            consent=version.consent,
            requires=Requires(
                count=needs.count,
                memory_mib=needs.memory_mib,
                toolchains=list(needs.toolchains),
            ),
        )
