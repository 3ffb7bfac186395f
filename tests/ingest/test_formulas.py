"""Formulas and code in statements: readable without scripts, and safe whoever wrote them."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ingest.site.formatting import (
    FORMULA_CHARS_MAX,
    MATHML_ATTRIBUTES,
    highlight_code,
    render_markdown,
)

STATEMENTS = sorted((Path(__file__).parents[2] / "problems").glob("*/statement.md"))
ATTRIBUTES = {*MATHML_ATTRIBUTES, "class", "href", "start", "tabindex"}
HOSTILE = (
    r"\text{<script>alert(1)</script>}",
    r"\text{&lt;img src=x onerror=alert(1)&gt;}",
    r"\operatorname{<img src=x onerror=alert(1)>}",
    r"\href{javascript:alert(1)}{x}",
    r"\style{color:red}{x}",
    r"\class{error}{x}",
    r"\color{red} x",
    r"\unicode{3c}script\unicode{3e}",
    r"\mspace{1em\" onclick=\"alert(1)}",
    r"\verb|<script>|",
    "{" * 1000,
    "x" * (FORMULA_CHARS_MAX + 1),
    r"\def\a{xx}\def\b{\a\a}\b",
    r"\newcommand{\a}{xx} \a",
)


class Page(HTMLParser):
    """The names of the tags and attributes of a text, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts = ""
        self.feed(str(text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember a tag."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        """Remember a text."""
        self.texts += data


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: path.parent.name)
def test_the_formulas_of_our_problems_are_mathml(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    page = Page(render_markdown(text))
    assert page.attributes <= ATTRIBUTES
    assert "$" not in page.texts
    # A command that is not understood would be shown as it is.
    assert not re.search(r"\\[a-zA-Z_]", page.texts)
    assert 'class="formula"' not in render_markdown(text)


@pytest.mark.parametrize("formula", HOSTILE)
def test_a_formula_brings_neither_markup_nor_links_nor_styles(formula: str) -> None:
    for mark in ("$", "$$"):
        page = Page(render_markdown(f"a {mark}{formula}{mark} b"))
        assert page.tags.isdisjoint({"script", "img", "a"})
        assert page.attributes <= {*MATHML_ATTRIBUTES, "class"}
        assert page.texts.startswith("a ")
        assert page.texts.strip().endswith(" b")


def test_code_is_highlighted_and_escaped() -> None:
    code = 'x = "</code><script>alert(1)</script>"\n\x1b[31m'
    for language in ("python", "cpp", "cuda", "unknown"):
        page = Page(highlight_code(code, language))
        assert page.tags <= {"span"}
        assert "\x1b" not in page.texts
        assert "</code><script>alert(1)</script>" in page.texts
    assert '<span class="keyword">def</span>' in highlight_code("def f(): pass", "python")
    assert '<span class="keyword">__global__</span>' in highlight_code(
        "__global__ void f();", "cuda"
    )
    assert '<span class="keyword">def</span>' in render_markdown("```python\ndef f(): pass\n```")


@pytest.mark.parametrize("info", ["", "python", "py", "cuda", "c++", "text", 'x" onload="alert(1)'])
@pytest.mark.parametrize("mark", ["```", "~~~"])
def test_a_fenced_block_is_a_block_of_escaped_code(mark: str, info: str) -> None:
    code = "x = '</code></pre><script>alert(1)</script>' & <b>\n"
    text = render_markdown(f"Before.\n{mark}{info}\n{code}{mark}\nAfter.\n")
    page = Page(text)
    assert page.tags <= {"p", "pre", "code", "span"}
    assert {"pre", "code"} <= page.tags
    assert page.attributes <= {"class", "tabindex"}
    # The tags around the code are tags, and those in it are text.
    assert code in page.texts
    assert "<pre" not in page.texts


def test_an_indented_block_and_an_unclosed_fence_are_code_too() -> None:
    for text in ("    a < b\n", "```\na < b\n"):
        page = Page(render_markdown(text))
        assert page.tags == {"pre", "code"}
        assert page.texts == "a < b\n\n"


def test_links_have_safe_schemes_and_nothing_is_loaded_from_elsewhere() -> None:
    safe = ("https://example.org/a?b=c:d", "/problems/a", "other.md#a:b", "mailto:a@example.org")
    unsafe = (
        *("javascript:alert(1)", "JaVaScRiPt:alert(1)", "java&#115;cript:alert(1)"),
        *("vbscript:x", "data:text/html,x", "ftp://example.org", "file:///etc/passwd", "intent:x"),
    )
    for url in safe:
        assert f'href="{url}"' in render_markdown(f"[a]({url})")
    for url in unsafe:
        page = Page(render_markdown(f"[a]({url}) <{url}>\n\n[b]\n\n[b]: {url}\n"))
        assert page.tags == {"p"}, url
    page = Page(render_markdown("![a](https://example.org/a.png) <img src=https://example.org>"))
    assert "img" not in page.tags
