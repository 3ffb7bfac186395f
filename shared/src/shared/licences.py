"""The licences that a participant may give a source: in releases, under which terms others use it.

The names are those of SPDX. An account has one for all its submissions, and a submission may name
another one.
"""

from typing import Literal, get_args

# As an account's choice: whatever the operator's default is; and no release at all.
DEFAULT, NO_RELEASE = "default", "none"
OwnLicence = Literal["none", "MIT", "Apache-2.0", "BSD-3-Clause", "CC0-1.0", "CC-BY-4.0"]
AccountLicence = Literal[
    "default", "none", "MIT", "Apache-2.0", "BSD-3-Clause", "CC0-1.0", "CC-BY-4.0"
]
# The operator's default may be any of these, or "" if sources are in releases only by choice.
LICENCES: tuple[str, ...] = tuple(name for name in get_args(OwnLicence) if name != NO_RELEASE)
