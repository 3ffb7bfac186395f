"""How well the search of the archive finds kernels, beside plain BM25 in the same run.

`python -m bench.retrieval [--smoke]`. The archive is every correct solution of the catalogue; what
is relevant is labelled by the problems and families of `retrieval_families.toml`:

- kernel: a solution finds the other solutions of its problem, in whatever language;
- module: a problem's eager PyTorch baseline finds its solutions;
- text: the first paragraph of a problem's statement finds its solutions; neither side has that
  paragraph in what it searches;
- family: a solution finds those of the related problems, in an archive without its own problem.

The weights of the search are chosen on one half of the families, those with an odd place in the
alphabet; what is held is the other half, whose queries had no part in the choice. Both are printed.

Plain BM25 searches each source with its problem's title and description as a bag of words. `with
all texts` also has the statement and the reference, which is all that the search has.
"""

import argparse
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from rank_bm25 import BM25Okapi

from bench.figures import Figure, at_least, report
from ranker.domain.kernel_text import KernelText, read_kernel, read_problem, read_words
from ranker.domain.retrieval import WEIGHTS, Kernel, Parts, compare, correct_words

PROBLEMS = Path(__file__).parent.parent / "problems"
FAMILIES = Path(__file__).parent / "retrieval_families.toml"
TOP, BETTER_MIN = 5, 0.10
# What is tried for the weights of words, all kernels together, operations and code; that of the
# problem is 1.
GRID = ((0.1, 0.3, 1.0), (1.0, 2.0, 3.0), (0.1, 0.3, 1.0), (0.1, 0.3, 1.0))
WORD = re.compile(r"\w+")
NO_PROSE = ("#", "|", "$$", "!")


class Solution(NamedTuple):
    """A kernel of the archive, and what it is about."""

    problem: str
    source: str
    text: KernelText


class Problem(NamedTuple):
    """The texts of a problem: the first paragraph of its statement apart."""

    title: str
    description: str
    paragraph: str
    statement: str
    reference: str
    eager: str

    def text(self, slug: str, tags: Sequence[str]) -> KernelText:
        """What the search knows of the problem."""
        title = " ".join([slug.replace("-", " "), self.title, self.description, *tags])
        return read_problem(title, self.statement, self.reference)


class Query(NamedTuple):
    """A query, the indices of the relevant solutions, and of those that the archive lacks."""

    kind: str
    family: str
    text: str
    is_source: bool
    relevant: frozenset[int]
    absent: frozenset[int]


class Catalogue(NamedTuple):
    """The archive and the problems behind it."""

    solutions: list[Solution]
    problems: dict[str, Problem]
    texts: dict[str, KernelText]


Search = Callable[[Query], Sequence[int]]


def read_catalogue(root: Path = PROBLEMS) -> Catalogue:
    """Read every correct solution of the catalogue."""
    solutions, problems, texts = [], {}, {}
    for folder in sorted(path for path in root.iterdir() if (path / "solutions").is_dir()):
        rules = yaml.safe_load((folder / "warpboard.yml").read_text())
        problem = _read_problem(folder, rules)
        problems[folder.name] = problem
        texts[folder.name] = problem.text(folder.name, rules.get("tags", ()))
        for path in sorted((folder / "solutions" / "correct").iterdir()):
            if path.is_file():
                source = path.read_text()
                solutions.append(Solution(folder.name, source, read_kernel(source)))
    return Catalogue(solutions, problems, texts)


def _read_problem(folder: Path, rules: Mapping[str, Any]) -> Problem:
    task = folder / "task.yml"
    described = yaml.safe_load(task.read_text()) if task.exists() else rules
    statement = (folder / "statement.md").read_text()
    paragraph = next(
        part for part in statement.split("\n\n") if part.strip() and not part.startswith(NO_PROSE)
    )
    reference = "".join(path.read_text() for path in sorted(folder.glob("reference.*")))
    eager = folder / "baselines" / "eager.py"
    return Problem(
        rules["title"],
        described.get("description", ""),
        paragraph,
        statement.replace(paragraph, ""),
        reference,
        eager.read_text() if eager.exists() else "",
    )


def list_queries(catalogue: Catalogue, families: Mapping[str, str]) -> Iterator[Query]:
    """Yield all queries with what is relevant to them."""
    of_problem: dict[str, set[int]] = defaultdict(set)
    of_family: dict[str, set[int]] = defaultdict(set)
    for index, solution in enumerate(catalogue.solutions):
        of_problem[solution.problem].add(index)
        of_family[families[solution.problem]].add(index)
    for index, (slug, source, _) in enumerate(catalogue.solutions):
        own, family = frozenset(of_problem[slug]), families[slug]
        yield Query("kernel", family, source, True, own - {index}, frozenset({index}))
        yield Query("family", family, source, True, frozenset(of_family[family]) - own, own)
    for slug, problem in catalogue.problems.items():
        own, family = frozenset(of_problem[slug]), families[slug]
        yield Query("module", family, problem.eager, True, own, frozenset())
        yield Query("text", family, problem.paragraph, False, own, frozenset())


def search_bm25(catalogue: Catalogue, query: Query, *, has_all_texts: bool) -> Sequence[int]:
    """Rank by plain BM25."""
    indices = [at for at in range(len(catalogue.solutions)) if at not in query.absent]
    documents = []
    for at in indices:
        solution = catalogue.solutions[at]
        problem = catalogue.problems[solution.problem]
        parts = [solution.source, problem.title, problem.description]
        parts += [problem.statement, problem.reference] if has_all_texts else []
        documents.append(_words(" ".join(parts)))
    scores = BM25Okapi(documents).get_scores(_words(query.text))
    return [indices[at] for at in sorted(range(len(indices)), key=lambda at: -scores[at])]


def compare_archive(catalogue: Catalogue, query: Query) -> dict[int, Parts]:
    """Compare as the search of the platform does; speeds are unknown here."""
    kernels = [
        Kernel(at, solution.problem, "CPU", solution.text)
        for at, solution in enumerate(catalogue.solutions)
        if at not in query.absent
    ]
    visible = {kernel.problem for kernel in kernels}
    texts = {slug: text for slug, text in catalogue.texts.items() if slug in visible}
    if query.is_source:
        text = read_kernel(query.text)
    else:
        text = correct_words(read_words(query.text), [known.terms for known in texts.values()])
    numbers = [kernel.number for kernel in kernels]
    return dict(zip(numbers, compare(text, kernels, texts), strict=True))


def search_archive(
    compared: Mapping[Query, Mapping[int, Parts]], weights: Parts, query: Query
) -> Sequence[int]:
    """Rank as the search of the platform does with these weights."""
    scores = {number: parts.weigh(weights) for number, parts in compared[query].items()}
    matching = [number for number, score in scores.items() if score]
    return sorted(matching, key=lambda number: (-scores[number], number))


def choose_weights(
    queries: Sequence[Query], compared: Mapping[Query, Mapping[int, Parts]]
) -> Parts:
    """The weights with which these queries find most, of a grid of round numbers."""
    grid = [Parts(words, 1.0, *others) for words, *others in product(*GRID)]
    return max(grid, key=lambda it: score(queries, partial(search_archive, compared, it))["all"])


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def score(queries: Sequence[Query], search: Search) -> dict[str, tuple[float, float]]:
    """The mean recall in the first five and the mean reciprocal rank, of each kind and of all."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for query in queries:
        order = search(query)
        hits = len(query.relevant & set(order[:TOP]))
        recall = hits / min(TOP, len(query.relevant))
        first = next((at for at, index in enumerate(order, 1) if index in query.relevant), None)
        for kind in (query.kind, "all"):
            found[kind].append((recall, 1 / first if first else 0.0))
    return {
        kind: (_mean([recall for recall, _ in pairs]), _mean([rank for _, rank in pairs]))
        for kind, pairs in found.items()
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def measure(step: int = 1) -> list[Figure]:
    """The figures of all queries, or of every so many."""
    catalogue = read_catalogue()
    families = tomllib.loads(FAMILIES.read_text())["families"]
    of_problem = {slug: family for family, slugs in families.items() for slug in slugs}
    queries = [
        query for query in list_queries(catalogue, of_problem) if query.text and query.relevant
    ][::step]
    compared = {query: compare_archive(catalogue, query) for query in queries}
    chosen_on = sorted(families)[::2]
    halves = {
        "chosen on": [query for query in queries if query.family in chosen_on],
        "held out": [query for query in queries if query.family not in chosen_on],
    }
    weights = choose_weights(halves["chosen on"], compared)
    print(f"the best weights on the first half: {weights}; those of the search: {WEIGHTS}")
    figures = [
        Figure(name="kernels in the archive", measured=len(catalogue.solutions)),
        Figure(
            name="weights that are not the best of the first half",
            measured=sum(one != other for one, other in zip(weights, WEIGHTS, strict=True)),
        ),
    ]
    searches: dict[str, Search] = {
        "ours": partial(search_archive, compared, WEIGHTS),
        "plain BM25": partial(search_bm25, catalogue, has_all_texts=False),
        "BM25 with all texts": partial(search_bm25, catalogue, has_all_texts=True),
    }
    for half, some in halves.items():
        figures += _measure_half(half, some, searches)
    return figures


def _measure_half(
    half: str, queries: Sequence[Query], searches: Mapping[str, Search]
) -> Iterator[Figure]:
    scores = {name: score(queries, search) for name, search in searches.items()}
    yield Figure(name=f"{half}: queries", measured=len(queries))
    for kind in sorted(scores["ours"]):
        for name, by_kind in scores.items():
            recall, mrr = by_kind[kind]
            yield Figure(name=f"{half}, {kind}: recall@{TOP}, {name}", measured=recall)
            yield Figure(name=f"{half}, {kind}: MRR, {name}", measured=mrr)
    ours, plain, all_texts = (by_kind["all"][0] for by_kind in scores.values())
    yield Figure(
        name=f"{half}: recall@{TOP} over plain BM25",
        measured=ours - plain,
        goal=at_least(BETTER_MIN),
        is_held=half == "held out",
    )
    yield Figure(name=f"{half}: recall@{TOP} over BM25 with all texts", measured=ours - all_texts)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m bench.retrieval", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="every fourth query")
    report(measure(step=4 if parser.parse_args().smoke else 1))


if __name__ == "__main__":
    main()
