"""The ways in which an operation fails, and the codes of refusals with their HTTP status.

Refused: the core said no; the caller's matter, never retried.
Failed: something outside did not work; may be retried, a bounded number of times.
Conflict (shared.event_log): someone appended first; read and decide again.
Anything else is a bug: the process ends loudly and is restarted.
"""


class Refused(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """A command that the core refused: `code` for programs, `reason` for people.

    `retry_after_s` is when it may succeed; None if retrying does not help.
    """

    def __init__(
        self,
        code: str,
        reason: str,
        field: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.field = field
        self.retry_after_s = retry_after_s


class Failed(Exception):  # noqa: N818
    """Something outside did not work; the operation may be retried."""


STATUS_BY_CODE = {
    "access_denied": 400,
    "authorization_pending": 400,
    "bad_branch": 400,
    "bad_canary": 400,
    "bad_duel": 400,
    "bad_cursor": 400,
    "bad_directive": 400,
    "bad_directory": 400,
    "bad_extension": 400,
    "bad_file": 400,
    "bad_idempotency_key": 400,
    "bad_key": 400,
    "bad_password": 400,
    "bad_query": 400,
    "bad_rejudge": 400,
    "bad_repository": 400,
    "bad_upload": 400,
    "conflicting_credentials": 400,
    "empty_file": 400,
    "expired_token": 400,
    "invalid_grant": 400,
    "invalid_invite": 400,
    "invalid_scope": 400,
    "invite_claimed": 400,
    "invite_expired": 400,
    "leaderboard_mismatch": 400,
    "not_supported": 400,
    "not_utf8": 400,
    "slow_down": 400,
    "unknown_gpu": 400,
    "unknown_mode": 400,
    "unknown_provider": 400,
    "unknown_repository": 400,
    "missing_credential": 401,
    "invalid_credential": 401,
    "cli_id_not_linked": 401,
    "scope_missing": 403,
    "bad_csrf": 403,
    "login_refused": 403,
    "user_banned": 403,
    "no_access": 403,
    "operator_access_off": 403,
    "not_yours": 403,
    "deadline_passed": 403,
    "unknown_leaderboard": 404,
    "unknown_submission": 404,
    "unknown_problem": 404,
    "unknown_problem_set": 404,
    "unknown_participant": 404,
    "unknown_agent": 404,
    "unknown_rejudge": 404,
    "unknown_dead_letter": 404,
    "unknown_token": 404,
    "unknown_cli_id": 404,
    "unknown_user_code": 404,
    "unknown_identity": 404,
    "unknown_invite": 404,
    "unknown_webhook": 404,
    "not_found": 404,
    "accounts_lost": 409,
    "name_lost": 409,
    "already_ended": 409,
    "has_submissions": 409,
    "not_cancellable": 409,
    "private_only": 409,
    "wrong_state": 409,
    "under_review": 409,
    "in_progress": 409,
    "shown_once": 409,
    "cli_id_taken": 409,
    "identity_taken": 409,
    "name_taken": 409,
    "user_code_used": 409,
    "consent_missing": 409,
    "check_missing": 409,
    "check_failed": 409,
    "gpu_has_entries": 409,
    "too_many_webhooks": 409,
    "cursor_expired": 410,
    "cli_id_expired": 410,
    "user_code_expired": 410,
    "file_too_large": 413,
    "request_too_large": 413,
    "archive_not_supported": 415,
    "bad_problem": 422,
    "bad_report": 422,
    "idempotency_key_reused": 422,
    "invalid_request": 422,
    "invalid_url": 422,
    "quota_exceeded": 429,
    "rate_limited": 429,
    "submissions_paused": 503,
    "too_many_streams": 503,
    "queue_full": 503,
    "starting": 503,
}
