"""The licences that a participant may give a source: in releases, under which terms others use it.

The names are those of SPDX. An account has one for all its submissions, and a submission may name
another one. Without either, a source is in no release.
"""

from typing import Literal, NamedTuple, get_args

# As an account's choice: none yet; whatever the operator's default is; and no release at all.
UNDECIDED, DEFAULT, NO_RELEASE = "undecided", "default", "none"
OwnLicence = Literal["none", "MIT", "Apache-2.0", "BSD-3-Clause", "CC0-1.0", "CC-BY-4.0"]
AccountLicence = Literal[
    "undecided", "default", "none", "MIT", "Apache-2.0", "BSD-3-Clause", "CC0-1.0", "CC-BY-4.0"
]
# What a participant who is asked chooses from.
CHOICES: tuple[str, ...] = get_args(AccountLicence)[1:]
# The operator's default may be any of these, or "" if sources are in releases only by choice.
LICENCES: tuple[str, ...] = tuple(name for name in get_args(OwnLicence) if name != NO_RELEASE)


class Licence(NamedTuple):
    """A licence, and where it comes from: submission, account or platform."""

    name: str
    consent: str


def choose_licence(own: str, account: str, platform: str) -> Licence | None:
    """Return the licence of a source; None if its author gave it none.

    `own` is that of the submission, `account` that of the account, and `platform` the operator's
    default, which applies only to accounts that chose it.

    >>> choose_licence("", "undecided", "MIT"), choose_licence("none", "MIT", "MIT")
    (None, None)
    >>> choose_licence("", "default", "MIT").consent, choose_licence("", "default", "")
    ('platform', None)
    """
    if own:
        licence = Licence(own, "submission")
    elif account == DEFAULT:
        licence = Licence(platform, "platform")
    else:
        licence = Licence(account, "account")
    return licence if licence.name in LICENCES else None
