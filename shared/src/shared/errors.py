"""The ways in which an operation fails, and the codes of refusals with their HTTP status.

Refused: the core said no; the caller's matter, never retried.
Failed: something outside did not work; may be retried, a bounded number of times.
Conflict (shared.event_log): someone appended first; read and decide again.
Anything else is a bug: the process ends loudly and is restarted.
"""

import difflib
from collections.abc import Iterable


class Refused(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """A command that the core refused: `code` for programs, `reason` for people.

    `retry_after_s` is when it may succeed; None if retrying does not help.
    """

    def __init__(
        self, code: str, reason: str, field: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.field = field
        self.retry_after_s = retry_after_s


def unknown_submission(submission: object, field: str = "number") -> Refused:
    """Return the refusal for a submission that does not exist, or not for the caller."""
    return Refused("unknown_submission", f"there is no submission {submission}", field)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the most similar of the known names as a question; "" if none is similar.

    >>> did_you_mean("Vectorad", ["matmul", "vectoradd"]), did_you_mean("x", ["matmul"])
    ('; did you mean vectoradd?', '')
    """
    names = {known_name.lower(): known_name for known_name in known}
    similar = difflib.get_close_matches(name.lower(), names, n=1)
    return f"; did you mean {names[similar[0]]}?" if similar else ""


class Failed(Exception):  # noqa: N818
    """Something outside did not work; the operation may be retried."""


_CODES_BY_STATUS = {
    400: (
        "access_denied authorization_pending bad_branch bad_canary bad_duel bad_cursor "
        "bad_directive bad_directory bad_extension bad_file bad_file_name bad_idempotency_key "
        "bad_key bad_password bad_query bad_rejudge bad_repository bad_upload "
        "conflicting_credentials empty_file expired_token invalid_grant invalid_invite "
        "invalid_scope invite_claimed invite_expired leaderboard_mismatch not_supported not_utf8 "
        "slow_down too_many_files "
        "unknown_gpu unknown_mode unknown_provider unknown_repository unknown_runner"
    ),
    401: "missing_credential invalid_credential cli_id_not_linked",
    403: (
        "scope_missing bad_csrf login_refused user_banned no_access not_yours deadline_passed "
        "contest_closed not_registered disqualified"
    ),
    404: (
        "unknown_check unknown_evaluation unknown_leaderboard unknown_submission unknown_problem "
        "unknown_problem_set "
        "unknown_participant unknown_agent unknown_rejudge unknown_dead_letter unknown_token "
        "unknown_cli_id unknown_user_code unknown_identity unknown_invite unknown_webhook "
        "unknown_contest unknown_contestant unknown_code "
        "not_found"
    ),
    409: (
        "accounts_lost name_lost already_ended has_submissions private_only "
        "wrong_state under_review in_progress shown_once cli_id_taken identity_taken name_taken "
        "user_code_used consent_missing licence_missing check_missing check_failed untested_gpus "
        "already_registered team_full terms_not_accepted "
        "gpu_has_entries too_many_webhooks toolchain_missing no_agent"
    ),
    410: "cursor_expired cli_id_expired user_code_expired",
    413: "file_too_large request_too_large",
    415: "archive_not_supported",
    422: "bad_contest bad_problem bad_report idempotency_key_reused invalid_request invalid_url",
    429: "quota_exceeded rate_limited too_many_open",
    503: "submissions_paused too_many_streams queue_full starting",
}
STATUS_BY_CODE = {
    code: status for status, codes in _CODES_BY_STATUS.items() for code in codes.split()
}
