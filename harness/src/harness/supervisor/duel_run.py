"""A run of two submissions: each is built and checked, then both are timed in alternation."""

from dataclasses import replace

from harness import messages
from harness.build import teams
from harness.build.teams import Machine, StageBudget, WorkerTeams
from harness.messages import CaseFailed, CaseReport, DuelReport, RunReport, RunRequest
from harness.problem import ProblemFault, RunDirectory
from harness.sandbox.box import SandboxFault
from harness.sandbox.team import Team
from harness.supervisor.run import Preparation, StagedRun, Tell
from harness.time.duel import require_walls, run_duel
from harness.time.sides import Side, SideFailed
from harness.time.stage import StageTimer
from harness.vocabulary import DUEL, SIDES


class DuelRun(StagedRun):
    """A run of two submissions: each is built and checked, then both are timed in alternation.

    A is the request's source, and its log and usage are the run's; B is its rival.
    """

    _processes_started = 2

    def __init__(
        self,
        request: RunRequest,
        directory: RunDirectory,
        machine: Machine,
        tell: Tell,
        preparation: Preparation,
    ) -> None:
        if directory.problem.main:
            raise ProblemFault("a problem that times its submissions itself cannot have duels")
        if directory.rival is None:
            raise ProblemFault("a duel needs two submissions: name the rival")
        super().__init__(request, directory, machine, tell, preparation)
        teams = self.worker_teams
        rival = WorkerTeams(
            teams.setup, directory.rival, request.mode, teams.ranks, pause=teams.pause
        )
        self._all_worker_teams = dict(zip(SIDES, (teams, rival), strict=True))
        self._teams: dict[str, Team] = {}
        self._duel: DuelReport | None = None
        self._steps |= dict.fromkeys(("check", "hidden_check"), self._judge_both)
        self._steps[DUEL] = self._time_both

    def execute(self) -> RunReport:
        """Run the stages of both submissions. Raises the same errors as any run."""
        try:
            report = replace(super().execute(), duel=self._duel)
        finally:
            # Ending B fails only if one of its processes cannot be killed.
            rival = self._all_worker_teams["B"]
            try:
                rival.end()
            except CaseFailed as failure:
                raise SandboxFault(failure.message) from failure
            finally:
                self._directory.keep("rival-log.txt", rival.log.whole().encode())
        if self._duel is not None and self._duel.failed:
            report = replace(report, reason=f"submission {self._duel.failed}: {report.reason}")
        return report

    def _screen(self, stage: str) -> list[CaseReport]:
        for name, worker_teams in self._all_worker_teams.items():
            if reports := self._screen_directory(worker_teams.directory, stage):
                return self._fail_side(name, reports[0])
        return []

    def _build(self, stage: str, _: StageBudget) -> list[CaseReport]:
        require_walls(self._machine)
        # The cache must be closed before the author's code is loaded.
        for name, worker_teams in self._all_worker_teams.items():
            is_last = name == SIDES[-1]
            try:
                teams.prepare_submission(worker_teams, self._machine.cache, is_last=is_last)
            except CaseFailed as failure:
                return self._fail_side(name, messages.failed_case_report("", stage, failure))
        self._hold_device()
        for name, worker_teams in self._all_worker_teams.items():
            self._teams[name] = worker_teams.start(self._ranks_first)
            self._load_author()
            try:
                worker_teams.wait_until_ready(self._teams[name])
                self._teams[name].freeze()
            except CaseFailed as failure:
                return self._fail_side(name, messages.failed_case_report("", stage, failure))
        return []

    def _judge_both(self, stage: str, budget: StageBudget) -> list[CaseReport]:
        reports: list[CaseReport] = []
        budget_s = budget.left_s
        for name in SIDES:
            self._team, worker_teams = self._teams[name], self.worker_teams
            self.worker_teams = self._all_worker_teams[name]
            try:
                case_reports = self._judge_all(stage, StageBudget(budget_s))
            finally:
                self._teams[name], self.worker_teams = self._team, worker_teams
            if failed_case := messages.first_failed(case_reports):
                return self._fail_side(name, failed_case)
            reports = reports or case_reports
        return reports

    def _time_both(self, stage: str, budget: StageBudget) -> list[CaseReport]:
        cases = self._problem.cases(stage, self._request.mode)
        side_a, side_b = (
            Side(name, self._all_worker_teams[name], self._teams[name], StageBudget(budget.left_s))
            for name in SIDES
        )
        timer = StageTimer((side_a, side_b), self._timing_context(stage), DUEL, stage)
        try:
            self._duel = run_duel(timer, cases, self._problem.ranking_by)
        except SideFailed as failed:
            return self._fail_side(failed.side, failed.report)
        finally:
            self._directory.keep("samples.json.gz", timer.record())
        return [CaseReport(case.name, stage, "passed", is_hidden=case.is_hidden) for case in cases]

    def _fail_side(self, side: str, report: CaseReport) -> list[CaseReport]:
        self._duel = DuelReport(winner="", failed=side)
        return [report]
