"""The acts of operators that the site offers, and links to their forms."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from ingest.identity.scopes import ADMIN
from ingest.site.admin.acts import Act, FormField

ACTS_PATH = "/admin/acts"
SUBMISSIONS, PARTICIPANTS = ("admin:submissions",), ("admin:participants",)
OPERATE, ALL = ("admin:operate",), (ADMIN,)
# As for the routes of invites: authors, for their own leaderboards, and operators.
INVITES = ("author", "admin:problems")

# For the author of the submission's problem, and operators.
HOLDS = ("author", *SUBMISSIONS)

REASON = FormField("reason", "Reason", "The log keeps it with your name; participants may see it.")
NUMBER = FormField("number", "Number of the submission", kind="number", length_max=16)
RULE = FormField("rule", "Rule", "The rule that it breaks. Its owner sees it.")
AGENT = FormField("agent", "Agent", length_max=64)
POOL = FormField("gpu", "GPU type", length_max=64)
NAME = FormField("name", "Participant", length_max=36)
ROLE = FormField("role", "Role", kind="choice", choices=("creator", "moderator", "admin"))

OVERDUE_PAGE, HELD_PAGE, APPEALS_PAGE = "/admin/overdue", "/admin/held", "/admin/appeals"
PARTICIPANTS_PAGE, INVITES_PAGE = "/admin/participants", "/admin/invites"
AGENTS_PAGE, INTAKE_PAGE = "/admin/agents", "/admin/intake"
DEAD_LETTERS_PAGE = "/admin/dead-letters"
EVALUATIONS_PAGE = "/admin/evaluations"
LABELS_PAGE = "/admin/labels"
PARTICIPANT_PAGE = f"{PARTICIPANTS_PAGE}/{{name}}"

SUBMISSION_ACTS: Mapping[str, Act] = {
    "cancel-submission": Act(
        "POST /v1/submissions/{number}/cancel",
        SUBMISSIONS,
        "Cancel a submission",
        "Cancel",
        "It ends without a verdict, and its owner gets the quota back.",
        OVERDUE_PAGE,
        "Submission {number} is being cancelled.",
        (NUMBER, REASON),
        "A cancelled submission cannot run again: its owner has to submit once more.",
    ),
    "retry-submission": Act(
        "POST /v1/admin/submissions/{number}/retry",
        SUBMISSIONS,
        "Retry a submission",
        "Retry",
        "It submits the file again for its owner, with a new number and without taking quota. Use "
        "it after a failure of the platform, or for a submission that is stuck.",
        OVERDUE_PAGE,
        "Submission {number} is submitted again: the number of the event is its new number.",
        (NUMBER, REASON),
        "A submission that is still open is cancelled, and loses its place in the queue.",
    ),
    "hold": Act(
        "POST /v1/admin/submissions/{number}/hold",
        HOLDS,
        "Hold a submission",
        "Hold",
        "It is kept off its leaderboard until somebody has reviewed it.",
        HELD_PAGE,
        "Submission {number} is held.",
        (NUMBER, RULE, REASON),
        "Its entry leaves the leaderboard, and the ranks behind it change.",
    ),
    "release-submission": Act(
        "POST /v1/admin/submissions/{number}/release",
        HOLDS,
        "Release a held submission",
        "Release",
        "It ends the hold: the submission is ranked if it is eligible.",
        HELD_PAGE,
        "Submission {number} is released.",
        (NUMBER, REASON),
        "Its entry appears on the leaderboard, and the ranks behind it change.",
    ),
    "disqualify": Act(
        "POST /v1/admin/submissions/{number}/disqualify",
        SUBMISSIONS,
        "Disqualify a submission",
        "Disqualify",
        "It is taken off its leaderboard, and its owner's next best entry counts.",
        HELD_PAGE,
        "Submission {number} is disqualified.",
        (NUMBER, RULE, REASON),
        "Its entry leaves the leaderboard, and the ranks behind it change.",
    ),
    "restore": Act(
        "POST /v1/admin/submissions/{number}/restore",
        SUBMISSIONS,
        "Restore a disqualified submission",
        "Restore",
        "It ends the disqualification.",
        HELD_PAGE,
        "Submission {number} is restored.",
        (NUMBER, REASON),
        "Its entry appears on the leaderboard again, and the ranks behind it change.",
    ),
    "accept-appeal": Act(
        "POST /v1/admin/submissions/{number}/decide-appeal",
        SUBMISSIONS,
        "Accept an appeal",
        "Accept",
        "It lifts the hold or the disqualification, and answers the owner of the submission.",
        APPEALS_PAGE,
        "The appeal for submission {number} is accepted.",
        (NUMBER, REASON),
        "An answer is final. The entry appears on the leaderboard again.",
        {"is_accepted": True},
    ),
    "reject-appeal": Act(
        "POST /v1/admin/submissions/{number}/decide-appeal",
        SUBMISSIONS,
        "Reject an appeal",
        "Reject",
        "The decision stays, and the owner of the submission gets your reason.",
        APPEALS_PAGE,
        "The appeal for submission {number} is rejected.",
        (NUMBER, REASON),
        "An answer is final: the owner cannot appeal against the same decision again.",
        {"is_accepted": False},
    ),
}
PARTICIPANT_ACTS: Mapping[str, Act] = {
    "open-account": Act(
        "POST /v1/admin/participants",
        PARTICIPANTS,
        "Create a participant",
        "Create a participant",
        "It creates an account with this name, without a way to log in.",
        PARTICIPANT_PAGE,
        "The participant {name} has an account.",
        (
            FormField("name", "Name", "1 to 32 of a-z 0-9 _ -", length_max=32),
            REASON,
        ),
    ),
    "ban": Act(
        "POST /v1/admin/participants/{name}/ban",
        PARTICIPANTS,
        "Ban a participant",
        "Ban",
        "They cannot submit or change anything, and can appeal once.",
        PARTICIPANT_PAGE,
        "{name} is banned.",
        (
            NAME,
            FormField(
                "until_at", "Until (UTC)", "Empty: for ever.", kind="time", is_required=False
            ),
            REASON,
        ),
        "All of their entries leave the leaderboards, and the ranks behind them change.",
    ),
    "unban": Act(
        "POST /v1/admin/participants/{name}/unban",
        PARTICIPANTS,
        "Lift a ban",
        "Lift the ban",
        "They may submit again.",
        PARTICIPANT_PAGE,
        "The ban of {name} is lifted.",
        (NAME, REASON),
        "Their entries appear on the leaderboards again, and the ranks behind them change.",
    ),
    "accept-ban-appeal": Act(
        "POST /v1/admin/participants/{name}/decide-appeal",
        PARTICIPANTS,
        "Accept an appeal against a ban",
        "Accept",
        "It lifts the ban, and answers the participant.",
        APPEALS_PAGE,
        "The appeal of {name} is accepted.",
        (NAME, REASON),
        "An answer is final. Their entries appear on the leaderboards again.",
        {"is_accepted": True},
    ),
    "reject-ban-appeal": Act(
        "POST /v1/admin/participants/{name}/decide-appeal",
        PARTICIPANTS,
        "Reject an appeal against a ban",
        "Reject",
        "The ban stays, and the participant gets your reason.",
        APPEALS_PAGE,
        "The appeal of {name} is rejected.",
        (NAME, REASON),
        "An answer is final: they cannot appeal against this ban again.",
        {"is_accepted": False},
    ),
    "rename": Act(
        "PUT /v1/admin/participants/{participant}/name",
        PARTICIPANTS,
        "Rename a participant",
        "Rename",
        "The old name still leads to them.",
        PARTICIPANT_PAGE,
        "{participant} is now called {name}.",
        (
            FormField(
                "participant", "Participant", "The present name, or the account.", length_max=36
            ),
            FormField("name", "New name", "1 to 32 of a-z 0-9 _ -", length_max=32),
            REASON,
        ),
        "Nobody else can ever get the old name.",
    ),
    "grant-role": Act(
        "POST /v1/admin/participants/{name}/roles",
        ALL,
        "Grant a role",
        "Grant a role",
        "A creator publishes problems, a moderator decides about submissions and participants, "
        "an admin may do everything.",
        PARTICIPANT_PAGE,
        "{name} now has the role {role}.",
        (NAME, ROLE, REASON),
        "An admin can do everything that you can, and can take your own role.",
    ),
    "revoke-role": Act(
        "DELETE /v1/admin/participants/{name}/roles/{role}",
        ALL,
        "Revoke a role",
        "Revoke a role",
        "From now on their tokens and logins have fewer permissions.",
        PARTICIPANT_PAGE,
        "{name} no longer has the role {role}.",
        (NAME, ROLE, REASON),
        "If you revoke your own role, only another admin can give it back.",
    ),
    "revoke-token": Act(
        "DELETE /v1/admin/tokens/{id}",
        PARTICIPANTS,
        "Revoke a token",
        "Revoke",
        "Whatever uses the token has to log in again.",
        PARTICIPANTS_PAGE,
        "Token {id} is revoked.",
        (FormField("id", "Number of the token", kind="number", length_max=16), REASON),
        "A revoked token cannot be used again.",
    ),
    "create-invites": Act(
        "POST /v1/admin/invites",
        INVITES,
        "Create invites",
        "Create invites",
        "Each code makes one participant a member of these leaderboards.",
        INVITES_PAGE,
        "The invites are created.",
        (
            FormField(
                "leaderboards",
                "Leaderboards",
                "Names of problems, separated by spaces.",
                kind="words",
                length_max=2000,
            ),
            FormField("count", "How many", "At most 10,000.", kind="number", default="1"),
            FormField(
                "expires_at",
                "Valid until (UTC)",
                "Empty: they do not expire.",
                kind="time",
                is_required=False,
            ),
            REASON,
        ),
    ),
    "revoke-invite": Act(
        "DELETE /v1/admin/invites/{code}",
        INVITES,
        "Revoke an invite",
        "Revoke",
        "The code can no longer be used.",
        INVITES_PAGE,
        "The invite is revoked.",
        (FormField("code", "Code", length_max=128), REASON),
        "A participant who joined with this code is no longer a member.",
    ),
}
PLATFORM_ACTS: Mapping[str, Act] = {
    "cordon": Act(
        "POST /v1/admin/agents/{agent}/cordon",
        OPERATE,
        "Cordon an agent",
        "Cordon",
        "It takes canaries only, until it is released.",
        AGENTS_PAGE,
        "The agent {agent} is cordoned.",
        (AGENT, REASON),
    ),
    "drain": Act(
        "POST /v1/admin/agents/{agent}/drain",
        OPERATE,
        "Drain an agent",
        "Drain",
        "It finishes its current run and takes no new jobs, until it is released.",
        AGENTS_PAGE,
        "The agent {agent} is drained.",
        (AGENT, REASON),
    ),
    "quarantine": Act(
        "POST /v1/admin/agents/{agent}/quarantine",
        OPERATE,
        "Put an agent into quarantine",
        "Quarantine",
        "It takes no jobs and no canaries until it is released. Its current run may finish.",
        AGENTS_PAGE,
        "The agent {agent} is in quarantine.",
        (AGENT, REASON),
    ),
    "release-agent": Act(
        "POST /v1/admin/agents/{agent}/release",
        OPERATE,
        "Release an agent",
        "Release",
        "It ends cordon, drain and quarantine. Fix the cause of a quarantine first.",
        AGENTS_PAGE,
        "The agent {agent} is released.",
        (AGENT, REASON),
    ),
    "revoke-agent": Act(
        "POST /v1/admin/agents/{agent}/revoke",
        OPERATE,
        "Revoke an agent",
        "Revoke",
        "It may neither run jobs nor sign results.",
        AGENTS_PAGE,
        "The agent {agent} is revoked.",
        (AGENT, REASON),
        "This is permanent: an agent with this name can never be enrolled again.",
    ),
    "enroll": Act(
        "POST /v1/admin/agents/{agent}/enroll",
        OPERATE,
        "Enroll an agent",
        "Enroll an agent",
        "Results that this key signs count. On the machine, `python -m gpu_agent key` prints it.",
        AGENTS_PAGE,
        "The agent {agent} is enrolled.",
        (
            AGENT,
            FormField("sign_key", "Public key", "Ed25519, in base64.", length_max=64),
            FormField("owner", "Owner of the machine", length_max=64),
            REASON,
        ),
        "A key that the agent already has is replaced, and its results no longer count.",
    ),
    "pause-intake": Act(
        "POST /v1/admin/intake/pause",
        OPERATE,
        "Close the intake",
        "Close",
        "No submissions are accepted; those that were accepted keep running.",
        INTAKE_PAGE,
        "The intake is closed.",
        (FormField("reason", "Reason", "Participants see it."),),
    ),
    "resume-intake": Act(
        "POST /v1/admin/intake/resume",
        OPERATE,
        "Open the intake",
        "Open",
        "Submissions are accepted again.",
        INTAKE_PAGE,
        "The intake is open.",
        (REASON,),
    ),
    "pause-pool": Act(
        "POST /v1/admin/pools/{gpu}/pause",
        OPERATE,
        "Pause a pool",
        "Pause",
        "No jobs of this GPU type are assigned. Waiting participants see the reason.",
        INTAKE_PAGE,
        "The pool {gpu} is paused.",
        (POOL, REASON),
    ),
    "resume-pool": Act(
        "POST /v1/admin/pools/{gpu}/resume",
        OPERATE,
        "Resume a pool",
        "Resume",
        "Jobs of this GPU type are assigned again.",
        INTAKE_PAGE,
        "The pool {gpu} is resumed.",
        (POOL, REASON),
    ),
    "choose-canary": Act(
        "PUT /v1/admin/pools/{gpu}/canary",
        OPERATE,
        "Choose the canary of a pool",
        "Choose a canary",
        "The submission runs repeatedly on every agent of the pool. An agent on which it fails or "
        "is too slow is quarantined.",
        INTAKE_PAGE,
        "The pool {gpu} has a canary.",
        (
            POOL,
            FormField(
                "submission",
                "Number of the submission",
                "It must have passed on this type.",
                kind="number",
            ),
            FormField("every_s", "Interval in seconds", kind="number", default="3600"),
            FormField(
                "ratio_max",
                "Largest ratio to its usual time",
                "A run above it is too slow.",
                kind="number",
                default="1.1",
            ),
        ),
    ),
    "remove-canary": Act(
        "DELETE /v1/admin/pools/{gpu}/canary",
        OPERATE,
        "Remove the canary of a pool",
        "Remove the canary",
        "Nothing checks any more whether the agents of the pool become slower.",
        INTAKE_PAGE,
        "The pool {gpu} has no canary.",
        (POOL, REASON),
    ),
    "redrive": Act(
        "POST /v1/admin/deadletters/{consumer}/{seq}/redrive",
        OPERATE,
        "Deliver a dead letter again",
        "Deliver again",
        "Its consumer gets the event once more. Fix the cause first.",
        DEAD_LETTERS_PAGE,
        "Event {seq} is delivered to {consumer} again.",
        (
            FormField("consumer", "Consumer", length_max=64),
            FormField("seq", "Event", kind="number", length_max=16),
            REASON,
        ),
    ),
    "skip-event": Act(
        "POST /v1/admin/projections/{name}/skip",
        OPERATE,
        "Skip an event",
        "Skip",
        "The projection continues without an event that it cannot fold.",
        DEAD_LETTERS_PAGE,
        "The projection {name} skips event {seq}.",
        (
            FormField("name", "Projection", length_max=64),
            FormField("seq", "Event", kind="number", length_max=16),
            REASON,
        ),
        "The event is skipped for ever, in every replay too.",
    ),
}
ACTS: Mapping[str, Act] = {**SUBMISSION_ACTS, **PARTICIPANT_ACTS, **PLATFORM_ACTS}


class ActLink(NamedTuple):
    """A link to the form of an act, with the values that are known already."""

    name: str
    presets: Mapping[str, object]

    @property
    def act(self) -> Act:
        """Return the act."""
        return ACTS[self.name]

    @property
    def path(self) -> str:
        """Return the path of the form."""
        query = f"?{urlencode(self.presets)}" if self.presets else ""
        return f"{ACTS_PATH}/{self.name}{query}"

    @property
    def target(self) -> str:
        """Return what the act is about, for the name of the link."""
        return " ".join(map(str, self.presets.values()))


def link_act(name: str, /, **presets: object) -> ActLink:
    """Return a link to the form of an act."""
    return ActLink(name, presets)
