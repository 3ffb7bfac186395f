"""Types of the parameters in the paths of routes."""

from typing import Annotated

from fastapi import Path

from ingest.http.fields import ID, NAME_OR_ACCOUNT, SLUG

IdInPath = Annotated[str, Path(pattern=ID)]
NameInPath = Annotated[str, Path(pattern=NAME_OR_ACCOUNT)]
SlugInPath = Annotated[str, Path(pattern=SLUG)]
NumberInPath = Annotated[int, Path(ge=1)]
