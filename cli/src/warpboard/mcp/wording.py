"""What a tool that could not do its work says to a model: what is wrong, where, and the mend."""

from shared.errors import Failed, Refused
from warpboard.domain.units import about_text, one_line
from warpboard.service.ports import Unavailable

LENGTH_MAX = 2000
LOG_IN = (
    "a person must log in: warpboard login, or set WARPBOARD_TOKEN in this server's environment"
)
MENDS = {
    "missing_credential": LOG_IN,
    "invalid_credential": LOG_IN,
    "scope_missing": "a person must give this server a token with that scope",
    "unknown_problem": "list_problems has the slugs",
    "unknown_leaderboard": "list_problems has the slugs",
    "unknown_submission": "my_submissions has the numbers",
    "unknown_gpu": "read_task has the GPU types",
    "quota_exceeded": "quota says what is left; do not submit until it resets",
    "already_ended": "read_result has how it ended",
}


def refusal(refused: Refused) -> str:
    """A refusal with its code, its field and what to do about it.

    >>> refusal(Refused("empty_file", "the kernel has no text", "source"))
    'the kernel has no text [code empty_file, field source]'
    """
    # The command line's own refusals name an option.
    field = (refused.field or "").lstrip("-")
    where = f", field {field}" if field else ""
    parts = [f"{one_line(refused.reason, LENGTH_MAX)} [code {refused.code}{where}]"]
    if mend := MENDS.get(refused.code):
        parts.append(mend)
    if refused.retry_after_s is not None:
        parts.append(f"ask again in {about_text(refused.retry_after_s)}")
    return "; ".join(parts)


def failure(failed: Failed) -> str:
    """What did not work, and that this server goes on.

    >>> failure(Failed("no answer"))
    'no answer [code failed]; nothing is wrong with your call'
    """
    is_away = isinstance(failed, Unavailable)
    code = "unavailable" if is_away else "failed"
    wait_s = failed.wait_s if isinstance(failed, Unavailable) else None
    again = f"the same call may work in {about_text(wait_s or 10.0)}"
    mend = again if is_away else "nothing is wrong with your call"
    return f"{one_line(str(failed), LENGTH_MAX)} [code {code}]; {mend}"
