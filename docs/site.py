"""Collects the pages of the site: `python -m docs.site` writes build/pages for MkDocs.

MkDocs takes its pages from one folder, and ours lie beside the code that they describe. The copies
have the same paths, so the links between them stay as they are.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "build" / "pages"
PATTERNS = (
    "*.md",
    "docs/**/*.md",
    "*/README.md",
    "services/*/README.md",
    "bench/*.md",
    "bench/*/README.md",
)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def pages() -> list[Path]:
    """Return the pages of the project; those of .github and of each problem are not among them."""
    return sorted({page for pattern in PATTERNS for page in ROOT.glob(pattern)})


def linked_files(page: Path) -> Iterator[Path]:
    """Yield the files of this clone that a page links to, such as pictures and solutions."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve()
        if "://" not in target and path.is_file():
            yield path


def main() -> None:
    """Write the folder anew."""
    shutil.rmtree(TARGET, ignore_errors=True)
    files = {*pages(), *(file for page in pages() for file in linked_files(page))}
    for file in files:
        copy = TARGET / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    print(f"{len(pages())} pages and {len(files) - len(pages())} other files in {TARGET}")


if __name__ == "__main__":
    main()
