"""A problem's release policy: who reads the sources that are sent in, and when they go out."""

from typing import Any, Final, Literal

from shared.problems.document import bad_problem
from shared.problems.warpboard_yml import NAME, WarpboardYml

OWNER: Final = "owner"
NEVER: Final = "never"
AFTER_CLOSE: Final = "after_close"
ALWAYS: Final = "always"
# How open each word is; what is passed on is read by everybody, so it is never the more open one.
_OPENNESS = {OWNER: 0, NEVER: 0, AFTER_CLOSE: 1, ALWAYS: 2}

Published = Literal["never", "after_close", "always"]
Visible = Literal["owner", "after_close", "always"]


def released(extras: WarpboardYml) -> tuple[Visible, Published]:
    """By whom sources are seen, and when they are published. Errors: Refused `bad_problem`.

    >>> released(WarpboardYml(source_visible="owner"))
    ('owner', 'never')
    """
    visible: Visible = extras.source_visible or AFTER_CLOSE
    usual: Published = NEVER if visible == OWNER else AFTER_CLOSE
    publish: Published = extras.publish or usual
    if _OPENNESS[publish] > _OPENNESS[visible]:
        what = (
            f"{NAME}: publish: {publish} with source_visible: {visible}: what is published is "
            f"seen by everybody, so say source_visible: {publish} too"
        )
        raise bad_problem(what, "publish")
    return visible, publish


def of_release(extras: WarpboardYml) -> dict[str, Any]:
    """What a manifest says of it; nothing where nothing is said.

    So the digest of a problem that says nothing is what it was before there was a policy.
    """
    visible, publish = released(extras)
    if extras.source_visible is None and extras.publish is None:
        return {}
    return {"source_visible": visible, "publish": publish}
