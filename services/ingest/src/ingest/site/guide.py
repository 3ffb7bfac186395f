"""The documentation at /guide: the Markdown pages of the project, in the style of the site.

docs/README.md has the order of the pages. A clone serves its own pages. An installed package has
copies of them, which `python -m ingest.site.guide CLONE` writes.
"""

import asyncio
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from markdown_it.token import Token
from markupsafe import Markup

from ingest.identity.login.web import Web
from ingest.site.formatting import highlight_code, markdown_parser
from shared.errors import Refused

ADDRESS = "/guide"
CONTENTS = "docs/README.md"
START = "README.md"
COPIES = Path(__file__).parents[1] / "guide"
PATTERNS = (
    "*.md",
    "docs/**/*.md",
    "*/README.md",
    "deploy/**/*.md",
    "services/*/README.md",
    "bench/*/README.md",
    "bench/*.md",
)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
# What search results leave out of Markdown.
MARKUP = re.compile(r"[*`|]|\]\([^)]*\)|\[")
COMMENT = re.compile(r"\s{2,}# .*$")
PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}
FILE_S = 3600
SEARCH_CHARS_MAX = 100
HITS_MAX = 30
EXCERPT_CHARS = 160


class Entry(NamedTuple):
    """A page in the list of pages; `address` is where it is served."""

    group: str
    title: str
    path: str
    address: str


class Heading(NamedTuple):
    """A heading of a page, with its anchor."""

    level: int
    text: str
    anchor: str


class Page(NamedTuple):
    """A page as it is shown."""

    title: str
    headings: Sequence[Heading]
    content: Markup


class Hit(NamedTuple):
    """A section in which all words of a search are."""

    title: str
    section: str
    address: str
    excerpt: str


def guide_root() -> Path:
    """Return the folder of the pages: the copies, or else the clone.

    Raises `Refused` if this installation has no pages.
    """
    for root in (COPIES, Path(__file__).parents[5]):
        if (root / CONTENTS).is_file():
            return root
    message = "this platform was installed without its documentation"
    raise Refused("not_found", f"{message}: `python -m ingest.site.guide CLONE` adds it")


def list_pages(root: Path) -> list[Path]:
    """Return the pages below a folder."""
    pages = {page for pattern in PATTERNS for page in root.glob(pattern)}
    return sorted(page for page in pages if "/." not in page.relative_to(root.parent).as_posix())


def linked_files(root: Path, pages: Sequence[Path]) -> set[Path]:
    """Return the other files below a folder that pages link to, such as pictures and solutions."""
    targets = (
        (page.parent / target).resolve()
        for page in pages
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in target
    )
    root = root.resolve()
    return {path for path in targets if path.is_file() and path.is_relative_to(root)} - set(pages)


def page_address(path: str) -> str:
    """Return where a page is served.

    >>> page_address("docs/timing.md"), page_address("docs/adr/README.md"), page_address(START)
    ('/guide/docs/timing', '/guide/docs/adr', '/guide')
    """
    name = PurePosixPath(path)
    name = name.parent if name.name == "README.md" else name.with_suffix("")
    return f"{ADDRESS}/{quote(str(name))}".removesuffix("/.")


def heading_anchor(text: str) -> str:
    """Return the anchor of a heading, as GitHub makes it.

    >>> heading_anchor("What `a_b` costs, and why")
    'what-a_b-costs-and-why'
    """
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def list_commands(transcript: str) -> str:
    r"""Return the commands of a transcript, without prompts, comments and output.

    >>> list_commands("$ make up -j     # the platform\n…\nup\n$ ls \\\n> -l\n")
    'make up -j\nls \\\n-l'
    """
    return "\n".join(
        COMMENT.sub("", line[2:])
        for line in transcript.splitlines()
        if line.startswith(("$ ", "> "))
    )


def _render_fence(_renderer: object, tokens: Sequence[Token], index: int, *_: object) -> str:
    """Return a block of code; the button that copies it leaves out prompts and output."""
    token = tokens[index]
    language = token.info.split(" ")[0]
    copied = list_commands(token.content) if language == "console" else token.content
    code = highlight_code(token.content, language)
    pre = Markup('<pre class="{}" tabindex="0" data-copied="{}"><code>{}</code></pre>\n')
    return str(pre.format("copy" if copied else "", copied, code))


class Guide:
    """The pages below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        pages = [page.resolve() for page in list_pages(self.root)]
        self.paths = {self._name(page): page for page in pages}
        self.by_address = {page_address(name): name for name in self.paths}
        self.files = {self._name(file): file for file in linked_files(self.root, pages)}
        self.entries = list(self._read_entries())
        self._page = cache(self._render_page)
        self._sections = cache(lambda: list(self._read_sections()))

    def page(self, name: str) -> Page:
        """Return a page by its path."""
        return self._page(name)

    def text(self, name: str) -> str:
        """Return the Markdown of a page by its path."""
        return self.paths[name].read_text(encoding="utf-8")

    def groups(self) -> list[tuple[str, list[Entry]]]:
        """Return the list of pages by group."""
        return [(name, list(group)) for name, group in groupby(self.entries, lambda e: e.group)]

    def search(self, text: str) -> list[Hit]:
        """Return the sections with all words of a text; those with a word in a title come first."""
        words = text.lower().split()
        hits: list[tuple[int, int, Hit]] = []
        for hit, body in self._sections():
            names = f"{hit.title} {hit.section}".lower()
            found_in = f"{hit.section} {body}".lower()
            if all(word in found_in or word in names for word in words):
                start = max(0, found_in.find(words[0]) - len(hit.section) - EXCERPT_CHARS // 3)
                excerpt = MARKUP.sub("", " ".join(body[start : start + EXCERPT_CHARS].split()))
                named = sum(word in names for word in words)
                hits.append((-named, len(hits), hit._replace(excerpt=excerpt)))
        return [hit for _, _, hit in sorted(hits)[:HITS_MAX]]

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _read_entries(self) -> Iterator[Entry]:
        group = ""
        for line in self.text(CONTENTS).splitlines():
            if line.startswith("## "):
                group = line[3:]
            elif match := re.fullmatch(r"- \[(.+)\]\((.+)\)", line):
                path = self._target(CONTENTS, match[2])
                yield Entry(group, match[1], path, page_address(path))

    def _target(self, name: str, link: str) -> str:
        """Return the path of what a page links to."""
        path = (self.root / name).parent.joinpath(link).resolve()
        return self._name(path) if path.is_relative_to(self.root) else ""

    def _read_sections(self) -> Iterator[tuple[Hit, str]]:
        for address, name in self.by_address.items():
            parts = re.split(r"^(#{1,3} .*)$", self.text(name), flags=re.MULTILINE)
            title = parts[1].lstrip("# ") if len(parts) > 1 else name
            for heading, body in zip(parts[1::2], parts[2::2], strict=True):
                section = heading.lstrip("# ")
                anchor = "" if section == title else f"#{heading_anchor(section)}"
                yield Hit(title, section, address + anchor, ""), body

    def _render_page(self, name: str) -> Page:
        # The pages are our own, so their few tags are kept.
        parser = markdown_parser(html=True)
        tokens = parser.parse(self.text(name))
        title = name
        headings: list[Heading] = []
        for token, inline in pairwise(tokens):
            if token.type == "heading_open":
                text = "".join(child.content for child in inline.children or ())
                level, anchor = int(token.tag[1:]), heading_anchor(inline.content)
                if level == 1:
                    title = text
                else:
                    earlier = sum(heading.anchor == anchor for heading in headings)
                    token.attrSet("id", f"{anchor}-{earlier}" if earlier else anchor)
                    headings.append(Heading(level, text, anchor))
            for child in token.children or ():
                self._resolve(name, child)
        if tokens and tokens[0].tag == "h1":
            # Its opening, its text and its end.
            del tokens[:3]
        parser.add_render_rule("fence", _render_fence)
        content = parser.renderer.render(tokens, parser.options, {})
        content = content.replace("<table>", '<div class="scroll" tabindex="0"><table>')
        return Page(title, headings, Markup(content.replace("</table>", "</table></div>")))  # noqa: S704

    def _resolve(self, name: str, token: Token) -> None:
        """Let a link or picture point to where the guide serves it."""
        attribute = {"link_open": "href", "image": "src"}.get(token.type)
        link = str(token.attrGet(attribute) or "") if attribute else ""
        target, hash_, anchor = link.partition("#")
        if not attribute or not target or "://" in target or target.startswith(("/", "mailto:")):
            return
        path = self._target(name, target)
        if path not in self.paths and f"{path}/README.md" in self.paths:
            path = f"{path}/README.md"
        address = page_address(path) if path in self.paths else f"{ADDRESS}/{quote(path)}"
        token.attrSet(attribute, address + hash_ + anchor)
        if token.type == "image":
            token.attrSet("loading", "lazy")


def add_guide_pages(router: APIRouter, web: Web) -> None:
    """Add the pages of the documentation, their Markdown, and the files that they link to."""
    load = cache(lambda: Guide(guide_root()))

    async def show(request: Request, name: str, search: str) -> Response:
        guide = load()
        values: dict[str, Any] = {
            "page": guide.page(name),
            "groups": guide.groups(),
            "current": page_address(name),
            "markdown": f"{ADDRESS}/{quote(name)}",
            "search": search,
            "hits": guide.search(search) if search else (),
        }
        session = await web.session(request)
        return web.public_page(request, "guide.html", session, has_script=True, **values)

    @router.get(ADDRESS)
    async def start(
        request: Request,
        search: Annotated[str, Query(alias="q", max_length=SEARCH_CHARS_MAX)] = "",
    ) -> Response:
        """The first page of the documentation, or what a search finds."""
        await asyncio.to_thread(load)
        return await show(request, START, search.strip())

    @router.get(f"{ADDRESS}/{{path:path}}")
    async def page(request: Request, path: str) -> Response:
        """A page of the documentation; with `.md` its Markdown; or a file that a page links to."""
        guide = await asyncio.to_thread(load)
        if name := guide.by_address.get(f"{ADDRESS}/{quote(path.removesuffix('/'))}"):
            return await show(request, name, "")
        headers = {"Cache-Control": f"public, max-age={FILE_S}"}
        if path in guide.paths:
            return Response(guide.text(path), media_type="text/markdown", headers=headers)
        if path not in guide.files:
            message = f"there is no page {path[:SEARCH_CHARS_MAX]!r}; {ADDRESS} lists all pages"
            raise Refused("not_found", message)
        file = guide.files[path]
        media_type = PICTURES.get(file.suffix, "text/plain")
        return Response(file.read_bytes(), media_type=media_type, headers=headers)


def main() -> None:
    """Copy the pages of a clone, and the files that they link to, into the installed package."""
    root = Path(sys.argv[1]).resolve()
    pages = [page.resolve() for page in list_pages(root)]
    shutil.rmtree(COPIES, ignore_errors=True)
    for file in {*pages, *linked_files(root, pages)}:
        copy = COPIES / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


if __name__ == "__main__":
    main()
