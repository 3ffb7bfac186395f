"""What owners of webhooks ask for."""

from typing import Annotated

from pydantic import Field

from ingest.http.bodies import RequestModel
from ingest.http.fields import Slugs
from ingest.ports import NewWebhook
from shared.addresses import URL_LENGTH_MAX
from shared.events import WebhookKind

Secret = Annotated[str, Field(pattern=r"^[!-~]{16,200}$")]


class WebhookRequest(RequestModel):
    """A webhook: its URL, events, problems and secret."""

    url: Annotated[str, Field(max_length=URL_LENGTH_MAX)]
    events: Annotated[list[WebhookKind], Field(min_length=1)]
    problems: Slugs = Field(default_factory=list)
    secret: Secret | None = None

    def to_new_webhook(self) -> NewWebhook:
        """Return the webhook to add."""
        problems = dict.fromkeys(slug.lower() for slug in self.problems)
        return NewWebhook(self.url, list(dict.fromkeys(self.events)), list(problems), self.secret)
