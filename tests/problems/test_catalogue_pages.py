"""The page of each shipped problem is up to date with its files."""

from docs import catalogue


def test_the_pages_of_the_problems_are_fresh() -> None:
    right = catalogue.pages()
    pages = {path: path.read_text(encoding="utf-8") for path in catalogue.FOLDER.glob("*.md")}
    stale = sorted(path.name for path in {*right, *pages} if right.get(path) != pages.get(path))
    assert not stale, "run `make docs`, and delete the pages of problems that are gone"
