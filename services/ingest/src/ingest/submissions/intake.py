"""Accepts submissions from every client."""

import asyncio

from ingest.consents.rules import has_consent
from ingest.contests.service import load_contest
from ingest.histories import HistoryCache
from ingest.identity.access.feed import AccessFeed
from ingest.identity.accounts.rules import Account
from ingest.identity.accounts.service import KnownAccounts
from ingest.identity.caller import Caller
from ingest.platform import rules as platform
from ingest.ports import Ports
from ingest.problems.rules import Problem, newest_version
from ingest.problems.service import load_problem
from ingest.quotas.service import Quotas
from ingest.submissions import rules
from ingest.submissions.admission import Admission, AdmissionLimits
from ingest.submissions.charging import Charging
from ingest.submissions.commit import Commits
from ingest.submissions.receipts import write_receipts
from ingest.submissions.resolution import SubmissionContext, Upload, resolve
from shared import subjects
from shared.api.submissions import SubmissionReceipts, SubmissionRequest
from shared.clock import new_id
from shared.errors import Refused
from shared.events import LauncherRegistered, ProblemPublished
from shared.problems.submission_file import Directives
from shared.request_trace import request_trace


class Intake:
    """Accepts submissions from every client. Methods may raise `Refused` and `Failed`."""

    def __init__(
        self,
        ports: Ports,
        histories: HistoryCache,
        quotas: Quotas,
        feed: AccessFeed,
        limits: AdmissionLimits,
    ) -> None:
        self._ports = ports
        self._asks_licence = limits.asks_licence
        self._feed = feed
        self._histories = histories
        self._accounts = KnownAccounts(histories, feed)
        self.admission = Admission(ports.lookups, limits)
        self._charging = Charging(ports, histories, quotas, self.admission.queues)
        self._commits = Commits(ports, self._charging)

    async def submit(self, upload: Upload) -> SubmissionReceipts:
        """Accept a submission, one for each GPU type."""
        trace = request_trace()
        trace.end_step("authenticate and parse")
        batch = resolve(upload, await self.load(upload))
        if parent := batch.submissions[0].parent:
            await self._check_parent(parent, batch.problem, upload.caller)
        trace.end_step("load and resolve")
        async with self.admission.admit(batch) as queues:
            charge = await self._charging.charge(batch, queues)
            trace.end_step("admit and charge")
            accepted = await self._commits.commit(batch, charge, queues)
        trace.end_step("store and append")
        if not accepted.is_repeat:
            for submission in accepted.submissions:
                trace.accept(submission.id, submission.number)
        return write_receipts(accepted, queues, batch.licence_notice)

    async def load(self, upload: Upload) -> SubmissionContext:
        """Load what an upload is decided on. Raises `Refused` while intake is paused."""
        request, account, at = upload.request, upload.caller.id, self._ports.clock()
        slug = request.problem.lower()
        launcher, has_name, account_state, problem, paused = await asyncio.gather(
            self._load_launcher(request.runner),
            self._has_name(account, request),
            self._accounts.state(account),
            load_problem(slug, self._histories.state),
            self._histories.state(subjects.audit(platform.PLATFORM), platform.INTAKE_DECIDER),
        )
        platform.check_intake(paused)
        contest = None
        if problem.contest:
            contest = await load_contest(problem.contest, self._histories)
        if _may_be_refused(account_state, slug, problem):
            # Another process may have lifted the ban, or recorded the consent, in this moment.
            account_state = await self._accounts.read(account)
        access = self._feed.rights()
        return SubmissionContext(
            *(at, new_id(), access, problem, contest, account_state, launcher, has_name),
            asks_licence=self._asks_licence,
        )

    async def check_open(self) -> None:
        """Refuse a submission while intake is paused."""
        platform.check_intake(await self.paused())

    async def paused(self) -> str | None:
        """Return why no submissions are accepted, None if they are."""
        return await self._histories.state(
            subjects.audit(platform.PLATFORM), platform.INTAKE_DECIDER
        )

    async def published(self, slug: str) -> ProblemPublished:
        """Return the newest version of a problem. Raises `Refused` (`unknown_leaderboard`)."""
        return newest_version(slug, await load_problem(slug, self._histories.state))

    async def choose_gpu(self, caller: Caller, slug: str, gpu: str | None) -> str:
        """Return a GPU type of a leaderboard as it spells it; its only one by default."""
        published = await self.published(slug)
        self._feed.rights().check_sees(caller, slug)
        return rules.choose_gpu(gpu, Directives(), published)

    async def _check_parent(self, parent: int, problem: str, caller: Caller) -> None:
        """Refuse a parent that is not a submission to the same problem that the caller can see.

        One that is hidden from the caller is refused like one that does not exist.
        """
        if await self._ports.lookups.problem_of(parent, caller.reader) != problem:
            message = (
                f"parent: {parent} is not a submission to {problem} that you can see; "
                "name another one, or none"
            )
            raise Refused("unknown_submission", message, "parent")

    async def _load_launcher(self, runner: str) -> LauncherRegistered | None:
        """Return what a launcher offers, None if there is no such launcher."""
        try:
            launcher = subjects.launcher(runner)
        except ValueError:
            return None
        return await self._histories.state(launcher, rules.LAUNCHER_DECIDER)

    async def _has_name(self, account: str, request: SubmissionRequest) -> bool:
        """Return whether a note of a request can be stored; true if it has none."""
        return not (request.note or request.tag) or await self._ports.account_store.has_row(account)


def _may_be_refused(account: Account, slug: str, problem: Problem) -> bool:
    published = problem.published
    is_asked = published is not None and not has_consent(account.consents, slug, published)
    return account.ban is not None or is_asked
