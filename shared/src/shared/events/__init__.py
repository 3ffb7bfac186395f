"""The catalogue of all facts that the platform records for ever, and the values in them.

A field may be added with a default; anything else is a new version, which `wire` must read too.
Each fact names its aggregate (the subject it is on), its publisher, and whether it is the last
of its aggregate. `docs/events.md` is generated from here. `submissions` has the events of
problems, submissions, jobs and runs; `evaluations` those of evaluations; `participants` those of
accounts, access, quotas, moderation and the settings of leaderboards; `contests` those of
contests; `platform` those of agents,
launchers, pools, the log, and what leaderboards show: records, duels, confirmations and rejudges.
"""

from typing import TypeAlias, get_args

# The package is the sum of its modules, so that a fact is named only where it is defined.
from shared.events.contests import *
from shared.events.evaluations import *
from shared.events.participants import *
from shared.events.platform import *
from shared.events.submissions import *
from shared.events.values import *
from shared.problems.values import Milestone as Milestone
from shared.problems.values import Requires as Requires
from shared.run_values import Composition as Composition
from shared.run_values import DuelResult as DuelResult
from shared.run_values import Mismatch as Mismatch
from shared.run_values import StageResult as StageResult

# All facts: a function that folds them ends its `match` with `assert_never`, so that mypy names a
# type that it forgets.
AnyFact: TypeAlias = (
    AgentFact
    | PoolFact
    | LauncherFact
    | PlatformFact
    | AccessFact
    | ModerationFact
    | QuotaFact
    | SubmissionFact
    | JobFact
    | RunFact
    | LeaderboardFact
    | ComparisonFact
    | RejudgeFact
    | EvaluationFact
    | ContestFact
)
CATALOGUE: dict[str, type[AnyFact]] = {fact.__name__: fact for fact in get_args(AnyFact)}
