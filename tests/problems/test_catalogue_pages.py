"""Each shipped problem has a page that is as fresh as its files."""

from docs import catalogue


def test_the_pages_of_the_problems_are_fresh() -> None:
    right = catalogue.pages()
    kept = {path: path.read_text(encoding="utf-8") for path in catalogue.FOLDER.glob("*.md")}
    stale = sorted(path.name for path in {*right, *kept} if right.get(path) != kept.get(path))
    assert not stale, "run `make docs`, and delete the pages of problems that are gone"
