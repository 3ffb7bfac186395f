"""What participants ask for about decisions of moderators."""

from typing import Annotated

from pydantic import Field

from ingest.http.bodies import RequestModel
from ingest.http.fields import APPEAL_LENGTH_MAX


class AppealRequest(RequestModel):
    """The text of an appeal."""

    text: Annotated[str, Field(min_length=1, max_length=APPEAL_LENGTH_MAX)]
