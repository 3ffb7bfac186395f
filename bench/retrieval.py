"""How well the search of the archive finds kernels, beside plain BM25 in the same run.

`python -m bench.retrieval [--smoke]`. The archive is every correct solution of the catalogue; what
is relevant is labelled by the problems and families of `retrieval_families.toml`:

- kernel: a solution finds the other solutions of its problem, in whatever language;
- module: a problem's eager PyTorch baseline finds its solutions;
- text: the first paragraph of a problem's statement finds its solutions; neither side has that
  paragraph in what it searches;
- family: a solution finds those of the related problems, in an archive without its own problem.

Plain BM25 searches each source with its problem's title and description as a bag of words. `with
all texts` also has the statement and the reference, which is all that the search has.
"""

import argparse
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from rank_bm25 import BM25Okapi

from bench.figures import Figure, at_least, report
from ranker.domain.kernel_text import KernelText, read_kernel, read_problem, read_words
from ranker.domain.retrieval import Kernel, correct_words, rank

PROBLEMS = Path(__file__).parent.parent / "problems"
FAMILIES = Path(__file__).parent / "retrieval_families.toml"
TOP, BETTER_MIN = 5, 0.10
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
        own = frozenset(of_problem[slug])
        yield Query("kernel", source, True, own - {index}, frozenset({index}))
        yield Query("family", source, True, frozenset(of_family[families[slug]]) - own, own)
    for slug, problem in catalogue.problems.items():
        own = frozenset(of_problem[slug])
        yield Query("module", problem.eager, True, own, frozenset())
        yield Query("text", problem.paragraph, False, own, frozenset())


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


def search_archive(catalogue: Catalogue, query: Query) -> Sequence[int]:
    """Rank as the search of the platform does; speeds are unknown here."""
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
    return [match.kernel.number for match in rank(text, kernels, texts)]


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
    ours = score(queries, partial(search_archive, catalogue))
    plain = score(queries, partial(search_bm25, catalogue, has_all_texts=False))
    all_texts = score(queries, partial(search_bm25, catalogue, has_all_texts=True))
    figures = [
        Figure(name="kernels in the archive", measured=len(catalogue.solutions)),
        Figure(name="queries", measured=len(queries)),
    ]
    rows = (("ours", ours), ("plain BM25", plain), ("BM25 with all texts", all_texts))
    for kind in sorted(ours):
        for name, scores in rows:
            recall, mrr = scores[kind]
            figures.append(Figure(name=f"{kind}: recall@{TOP}, {name}", measured=recall))
            figures.append(Figure(name=f"{kind}: MRR, {name}", measured=mrr))
    gain, strict_gain = (ours["all"][0] - other["all"][0] for other in (plain, all_texts))
    goal = at_least(BETTER_MIN)
    figures += [
        Figure(name="recall@5 over plain BM25", measured=gain, goal=goal, is_held=True),
        Figure(name="recall@5 over BM25 with all texts", measured=strict_gain),
    ]
    return figures


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m bench.retrieval", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="every fourth query")
    report(measure(step=4 if parser.parse_args().smoke else 1))


if __name__ == "__main__":
    main()
