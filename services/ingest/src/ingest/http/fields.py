"""Types of the fields of bodies and forms."""

from typing import Annotated

from pydantic import Field

TEXT_LENGTH_MAX = 500
APPEAL_LENGTH_MAX = 10_000
SUBMISSION_NOTE_LENGTH_MAX = 500
# These texts appear on screens, and some stay in the log for ever: no control characters, no line
# breaks and no marks that change the direction of reading.
PRINTABLE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
Text = Annotated[str, Field(min_length=1, max_length=TEXT_LENGTH_MAX, pattern=f"^{PRINTABLE}+$")]
SubmissionNoteText = Annotated[
    str, Field(max_length=SUBMISSION_NOTE_LENGTH_MAX, pattern=f"^{PRINTABLE}*$")
]
Tag = Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9_.-]{0,31})?$")]
ID = r"^[A-Za-z0-9_-]{1,64}$"
Token = Annotated[str, Field(pattern=ID)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
# A participant by name or, if the name was lost, by account, which is longer than any name.
NAME_OR_ACCOUNT = r"^([a-z0-9][a-z0-9_-]{0,31}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$"
NameOrAccount = Annotated[str, Field(pattern=NAME_OR_ACCOUNT)]
SLUG = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,94}$"
Slug = Annotated[str, Field(pattern=SLUG)]
PROBLEMS_MAX = 100
Slugs = Annotated[list[Slug], Field(max_length=PROBLEMS_MAX)]
