"""The lineage of a submission, as far as its reader sees the submissions and may compare sources.

A declared parent is shown to all who see both submissions. A detected one says something about both
sources, so only those who may read both are told of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request

from ranker.domain.score import add_interval, error_of_difference, interval_us
from ranker.http.access import CurrentReader, ReaderView, ReadSources
from ranker.http.responses import NumberInPath, json_response
from shared.api.lineage import Lineage, LineageMember, LineageParent
from shared.clock import now
from shared.errors import unknown_submission
from shared.http import DocumentedRoute, TypedResponse

ANCESTORS_MAX, DESCENDANTS_MAX = 12, 5
# Of each member, so many children are listed, and so many descendants altogether; so many children
# of each kind are read, and so many descendants.
CHILDREN_MAX, LISTED_MAX = 8, 60
CHILDREN_READ_MAX, MEMBERS_READ_MAX = 50, 400

Row = dict[str, Any]


def lineage_router(sources: ReadSources) -> APIRouter:
    """The route of lineages; a ranker that reads no sources knows only declared parents."""
    router = APIRouter(route_class=DocumentedRoute)

    @router.get("/v1/submissions/{number}/lineage")
    async def read_lineage(
        request: Request, reader: CurrentReader, number: NumberInPath
    ) -> TypedResponse[Lineage]:
        """What a submission is derived from, what is derived from it, and what each step gained.

        At most 12 generations of ancestors and 5 of descendants are listed, 8 children of each, and
        60 descendants altogether.
        """
        await sources.wait_until_folded(number)
        is_complete = sources.index is None or await sources.index.catch_up()
        seq = sources.progress.seq
        tree = await _read_tree(sources.view(reader), number)
        body = Lineage(items=list(tree.members()), is_complete=is_complete, as_of=seq)
        return json_response(request, body)

    return router


async def _read_tree(view: ReaderView, number: int) -> "_FamilyTree":
    at = now()
    rows = await view.rows(
        "lineage",
        number=number,
        # One more, which is not listed, but named or counted.
        ancestors=ANCESTORS_MAX + 1,
        descendants=DESCENDANTS_MAX + 1,
        children=CHILDREN_READ_MAX,
        limit=MEMBERS_READ_MAX,
    )
    visible = {row["number"]: add_interval(row) for row in rows if view.sees(row)}
    if number not in visible:
        raise unknown_submission(number)
    readable = {member for member, row in visible.items() if view.source_hidden(row, at) is None}
    parents = {member: _find_parents(row, visible, readable) for member, row in visible.items()}
    return _FamilyTree(number, visible, parents)


def _find_parents(row: Row, visible: Mapping[int, Row], readable: set[int]) -> list[LineageParent]:
    """The parents of a submission that the reader may know, the declared one first.

    `visible` are the submissions that the reader sees, and `readable` those whose source they may
    read.
    """
    declared, copy_of = row["parent"], row["copy_of"]
    is_compared = copy_of in readable and row["number"] in readable
    parents = []
    if declared in visible:
        similarity = row["similarity"] if is_compared and copy_of == declared else None
        parents.append(LineageParent(number=declared, kind="declared", similarity=similarity))
    if is_compared and copy_of != declared:
        parents.append(LineageParent(number=copy_of, kind="detected", similarity=row["similarity"]))
    return parents


@dataclass(frozen=True)
class _FamilyTree:
    """The members that a reader sees, by number, and their parents."""

    number: int
    rows: Mapping[int, Row]
    parents: Mapping[int, list[LineageParent]]

    def members(self) -> Iterator[LineageMember]:
        """Yield the members depth first, from the oldest ancestor on."""
        path = self._ancestors()
        for place, number in enumerate(path[:-1]):
            yield self._member(number, place - len(path) + 1, path[:place], 0)
        children = self._children()
        yield from self._descend(path, 0, children, self._listed(children))

    def _ancestors(self) -> list[int]:
        """The line of parents down to the submission; a parent is always the earlier one."""
        path = [self.number]
        while len(path) <= ANCESTORS_MAX and self.parents[path[0]]:
            path.insert(0, self.parents[path[0]][0].number)
        return path

    def _children(self) -> Mapping[int, list[int]]:
        """The children of each member, the oldest first."""
        children: dict[int, list[int]] = {}
        for number, parents in sorted(self.parents.items()):
            if parents:
                children.setdefault(parents[0].number, []).append(number)
        return children

    def _listed(self, children: Mapping[int, list[int]]) -> set[int]:
        """The descendants to list, the nearest generations first."""
        descendants: list[int] = []
        generation = [self.number]
        for _ in range(DESCENDANTS_MAX):
            generation = [
                child for parent in generation for child in children.get(parent, [])[:CHILDREN_MAX]
            ]
            descendants += generation
        return set(descendants[:LISTED_MAX])

    def _descend(
        self, path: list[int], generation: int, children: Mapping[int, list[int]], listed: set[int]
    ) -> Iterator[LineageMember]:
        """Yield the last member of a path, and its listed descendants."""
        own_children = children.get(path[-1], [])
        more_children = sum(child not in listed for child in own_children)
        yield self._member(path[-1], generation, path[:-1], more_children)
        for child in own_children:
            if child in listed:
                yield from self._descend([*path, child], generation + 1, children, listed)

    def _member(
        self, number: int, generation: int, path: list[int], more_children: int
    ) -> LineageMember:
        row = self.rows[number]
        over = next((at for at in reversed(path) if _is_comparable(self.rows[at], row)), None)
        speedup = interval = None
        if over is not None:
            speedup, interval = _compare(self.rows[over], row)
        return LineageMember(
            number=number,
            generation=generation,
            participant_id=row["participant_id"],
            participant=row["participant"],
            problem_version=row["problem_version"],
            gpu=row["gpu"],
            mode=row["mode"],
            received_at=row["received_at"],
            score_us=row["score_us"],
            interval_us=row["interval_us"],
            parents=self.parents[number],
            speedup=speedup,
            speedup_interval=interval,
            speedup_over=over,
            more_children=more_children,
        )


def _is_comparable(ancestor: Row, row: Row) -> bool:
    """Whether two submissions have times that mean the same."""
    has_times = bool(ancestor["score_us"] and row["score_us"])
    names = ("gpu", "result_version")
    return has_times and all(ancestor[name] == row[name] for name in names)


def _compare(ancestor: Row, row: Row) -> tuple[float, tuple[float, float] | None]:
    """The speed-up over an ancestor, with its 95 % interval if both have an error."""
    speedup = ancestor["score_us"] / row["score_us"]
    if ancestor["error"] is None or row["error"] is None:
        return speedup, None
    errors = [(it["error"], it["freedom"]) for it in (ancestor, row)]
    return speedup, interval_us(speedup, *error_of_difference(errors))
