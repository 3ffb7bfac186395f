"""Searches what callers are shown for secrets, and says which were shown too early."""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
import pytest

from tests.access.embargoed_contest import Secret, Stage, list_secrets, may_read

TAG = re.compile(r"<[^>]*>")
# What a header says of the request itself, or of the length of the body.
OWN_HEADERS = ("x-request-id", "content-length", "etag", "date", "warpboard-projection-lag")
EVERYBODY = "nobody"
HOLES_SHOWN = 20


class Found(NamedTuple):
    """A secret in a text, and what is around it."""

    secret: Secret
    around: str


@dataclass(frozen=True)
class Hole:
    """A secret that was shown to a caller who may not read it."""

    found: Found
    name: str
    surface: str
    stage: Stage

    def __str__(self) -> str:
        when = f"{self.stage.kind} from hour {self.stage.hour}"
        shown = f"{self.surface}: …{self.found.around}…"
        return f"{self.name} reads the {self.found.secret.text} in {when}: {shown}"


@dataclass
class Judge:
    """Knows all secrets, and notes who was shown which of them.

    `told` says which surfaces told which kinds of secrets, and to whom; `holes` are those that were
    told too early.
    """

    secrets: list[Secret] = field(default_factory=list_secrets)
    holes: list[Hole] = field(default_factory=list)
    told: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    any_secret: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        self.any_secret = re.compile("|".join(secret.pattern.pattern for secret in self.secrets))

    def find(self, text: str, head: str = "") -> Iterator[Found]:
        """Yield the secrets in a text, and in the headers before it.

        Ranks are searched outside of the tags of a page and of headers, which have other numbers.
        """
        whole = f"{head}\n{text}"
        # Most texts have none, and are searched once.
        if not self.any_secret.search(whole):
            return
        visible = TAG.sub(" ", text)
        for secret in self.secrets:
            searched = visible if secret.kind == "rank" else whole
            if match := secret.pattern.search(searched):
                yield Found(secret, searched[max(0, match.start() - 50) : match.end() + 20])

    def find_in_answer(self, answer: httpx.Response) -> list[Found]:
        """Return the secrets in a response and its headers."""
        headers = [text for name, text in answer.headers.items() if name not in OWN_HEADERS]
        return list(self.find("\n".join(read_texts(answer)), "\n".join(headers)))

    def judge(
        self,
        found: Iterable[Found],
        surface: str,
        name: str,
        stage: Stage,
        *,
        template: str = "",
        is_standing: bool = False,
    ) -> None:
        """Note secrets that a surface, of a template, showed to a caller in a phase.

        A standing shows everybody what it was when its freeze began.
        """
        for one in found:
            is_public = is_standing and is_frozen_standing(one.secret, stage)
            if is_public or may_read(one.secret, name, stage):
                self.told.setdefault(template or surface, set()).add((name, one.secret.kind))
            else:
                self.holes.append(Hole(one, name, surface, stage))

    def count_surfaces(self) -> Counter[str]:
        """Return how many surfaces told each kind of secret to whoever may read it."""
        return Counter(kind for pairs in self.told.values() for kind in {it[1] for it in pairs})

    def check(self) -> None:
        """Check that nothing was shown too early."""
        assert not self.holes, "\n".join(map(str, self.holes[:HOLES_SHOWN]))


def is_frozen_standing(secret: Secret, stage: Stage) -> bool:
    """Whether a secret is in a standing that everybody sees as it was when its freeze began."""
    is_early = secret.entry is None or secret.entry.hour < stage.hour
    return stage.shown == "frozen" and secret.kind in ("rank", "score") and is_early


def read_texts(answer: httpx.Response) -> Sequence[str]:
    """Return the texts in a body, also of a table in Parquet."""
    if answer.content.startswith(b"PAR1"):
        parquet: Any = pytest.importorskip("pyarrow.parquet")
        rows = parquet.read_table(io.BytesIO(answer.content)).to_pylist()
        return [str(row) for row in rows]
    return [answer.content.decode("utf-8", "replace")]
