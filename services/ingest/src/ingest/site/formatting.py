"""How the pages show values: the filters of the templates, statements, formulas and sources."""

import html
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from keyword import kwlist
from xml.etree.ElementTree import tostring

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markupsafe import Markup, escape

from shared.clock import now
from shared.presentation.outcome import (
    composition_text,
    roofline_text,
    share_text,
    shortcuts_text,
    speedup_cell,
    speedup_text,
    speedups_text,
)
from shared.presentation.report_parts import verdict_text
from shared.presentation.units import (
    about_text,
    count_text,
    escape_control_characters,
    first_line,
    interval_text,
    numbers_text,
    one_line,
    rank_text,
    seconds_text,
    spread_text,
    time_text,
    untested_text,
)
from shared.problems.submission_file import SUFFIXES

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
# A longer statement is shown as it is.
MARKDOWN_CHARS_MAX = 100_000
STATEMENTS_MAX = 64
FORMULA = re.compile(r"\$\$(?P<display>[^$]+)\$\$|\$(?P<inline>[^$\n]+)\$")
# A longer formula is shown as its source, and so is one that defines macros: each use of a macro
# could double the size of the formula.
FORMULA_CHARS_MAX = 2000
MACROS = re.compile(r"\\(newcommand|def|newenvironment|DeclareMathOperator)\b")
UPRIGHT = re.compile(r"\\(?:text|operatorname\*?)\s*\{([^{}]*)\}")
SPACE = re.compile(r"\\[,:; ]")
# What MathML needs for its layout: no links, no styles and no colours.
MATHML_ATTRIBUTES = frozenset(
    (
        *("display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "fence"),
        *("form", "separator", "movablelimits", "largeop", "symmetric", "minsize", "maxsize"),
        *("accent", "accentunder", "linethickness", "width", "height", "depth", "voffset"),
        *("lspace", "rspace", "columnalign", "columnlines", "columnspacing", "rowlines"),
        *("rowspacing", "notation"),
    )
)
# Longer code is shown in one colour.
HIGHLIGHT_CHARS_MAX = 60_000
SOURCES_MAX = 128
# Escape sequences that colour the output of a terminal, move its cursor or name its window.
UNIT = re.compile(r"(?<=\d) (?=[mnµ]?s\b)")
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?)")
# Everything up to the first colon that is neither in a path, a query nor a fragment.
SCHEME = re.compile(r"\s*([^/?#:]*):")
LINK_SCHEMES = ("http", "https", "mailto")
# How authors name the languages of our highlighter after a fence.
FENCE_LANGUAGES: Mapping[str, str] = {"py": "python", "cu": "cuda", "c++": "cpp", "c": "cpp"}
# Headings of a page's own are of levels 1 and 2.
HEADING_LEVELS = 2


def time_left_text(until_at: datetime, at: datetime | None = None) -> str:
    """Return how long it is until an instant, in words.

    >>> from datetime import UTC, timedelta
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> [time_left_text(at + timedelta(hours=hours), at) for hours in (0.5, 5, 60, -1)]
    ['in 30 minutes', 'in 5 hours', 'in 2 days', 'now']
    """
    left_s = (until_at - (at or now())).total_seconds()
    for size_s, noun in ((DAY_S, "day"), (HOUR_S, "hour"), (MINUTE_S, "minute")):
        # One day is shown as 24 hours.
        if left_s >= (2 * size_s if size_s > MINUTE_S else size_s):
            return f"in {count_text(int(left_s // size_s), noun)}"
    return "now"


def gap_text(time_us: float, best_us: float | None) -> str:
    """Return how much slower a time is than the best one.

    >>> gap_text(10.1, 10.0), gap_text(25.0, 10.0), gap_text(10.0, 10.0), gap_text(9.9, 10.0)
    ('+1 %', '2.5x', '', '-1 %')
    """
    if not best_us or time_us == best_us:
        return ""
    ratio = time_us / best_us
    return f"{ratio:.3g}x" if ratio >= 2 else f"{100 * (ratio - 1):+.2g} %"


def axis_time(at: datetime, other_at: datetime) -> str:
    """Return the label of an end of a time axis: the day, or the time if both are on one day.

    >>> from datetime import UTC
    >>> ends = [datetime(2026, 1, 1, 8, tzinfo=UTC), datetime(2026, 1, 2, 9, tzinfo=UTC)]
    >>> axis_time(ends[0], ends[1]), axis_time(ends[0], ends[0])
    ('2026-01-01', '08:00 UTC')
    """
    return f"{at:%H:%M UTC}" if at.date() == other_at.date() else f"{at:%Y-%m-%d}"


def language_title(language: str) -> str:
    """Return how a language, or an author's own name for a starter, is shown.

    >>> language_title("cpp"), language_title("Triton")
    ('C++', 'Triton')
    """
    return {"python": "Python", "cpp": "C++", "cuda": "CUDA"}.get(language, language)


def keep_units(text: str) -> str:
    """Return a text in which no line breaks between a number and its unit of time.

    >>> keep_units("5 ms (4 ms to 6 ms)")
    '5\\xa0ms (4\\xa0ms to 6\\xa0ms)'
    """
    return UNIT.sub("\N{NO-BREAK SPACE}", text)


FILTERS: Mapping[str, Callable[..., object]] = {
    "about": about_text,
    "axis_time": axis_time,
    "count": count_text,
    "first_line": first_line,
    "gap": gap_text,
    "interval_text": interval_text,
    "language": language_title,
    "numbers": numbers_text,
    "one_line": one_line,
    "plain": escape_control_characters,
    "rank": rank_text,
    "roofline": roofline_text,
    "unbroken": keep_units,
    "seconds": seconds_text,
    "share": share_text,
    "composition": composition_text,
    "shortcuts": shortcuts_text,
    "speedup": speedup_text,
    "speedup_cell": speedup_cell,
    "speedups": speedups_text,
    "spread": spread_text,
    "time_left": time_left_text,
    "time_text": time_text,
    "untested": untested_text,
    "verdict_text": verdict_text,
}


def render_formula(source: str, *, is_display: bool) -> Markup:
    r"""Return a LaTeX formula as MathML, or its source if it cannot be read.

    >>> print(render_formula("x < 1", is_display=False))
    <math display="inline"><mrow><mi>x</mi><mo>&lt;</mo><mn>1</mn></mrow></math>
    >>> print(render_formula(r"\frac{", is_display=False))
    <code class="formula">\frac{</code>
    """
    # It reads its table of symbols when it is imported.
    from latex2mathml.converter import convert_to_element

    shown_source = Markup('<code class="formula">{}</code>').format(source)
    if len(source) > FORMULA_CHARS_MAX or MACROS.search(source):
        return shown_source
    latex = UPRIGHT.sub(_make_upright, source)
    try:
        formula = convert_to_element(latex, display="block" if is_display else "inline")
    except Exception:  # noqa: BLE001  (the library has no common type for what it cannot read)
        return shown_source
    for element in formula.iter():
        # The library writes symbols as HTML entities into the texts, which are escaped below.
        element.text = html.unescape(element.text or "")
        for name in element.attrib.keys() - MATHML_ATTRIBUTES:
            del element.attrib[name]
    return Markup(tostring(formula, encoding="unicode"))  # noqa: S704


def _make_upright(match: re.Match[str]) -> str:
    r"""Return `\text` without the commands that the library shows as they are."""
    text = SPACE.sub(" ", match[1]).replace(r"\_", "_")
    return rf"\text{{{text}}}"


def _parse_formula(state: StateInline, silent: bool) -> bool:
    """Show a formula; without this rule, Markdown would change it."""
    match = FORMULA.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        source = match["display"] or match["inline"]
        formula = render_formula(source.strip(), is_display=match["display"] is not None)
        state.push("html_inline", "", 0).content = formula
    state.pos = match.end()
    return True


def _highlight_fence(code: str, language: str, _attributes: str) -> str:
    """Return the code of a fenced block as safe HTML.

    It is no Markup: that would escape the tags which the parser puts around it.
    """
    return str(highlight_code(code, FENCE_LANGUAGES.get(language, language)))


def _is_safe_link(url: str) -> bool:
    """Whether a link of a statement is to this site, another one, or an address for mail."""
    scheme = SCHEME.match(url)
    return scheme is None or scheme[1].lower() in LINK_SCHEMES


def markdown_parser(*, html: bool = False) -> MarkdownIt:
    """Return a parser of Markdown with formulas and tables; `html` keeps tags, otherwise text."""
    options = {"html": html, "highlight": _highlight_fence}
    parser = MarkdownIt("commonmark", options).enable("table")
    # The method is an attribute that the library means to be replaced.
    parser.validateLink = _is_safe_link  # type: ignore[method-assign]
    parser.inline.ruler.before("escape", "formula", _parse_formula)
    return parser


@lru_cache(STATEMENTS_MAX)
def render_markdown(text: str) -> Markup:
    r"""Return a statement as safe HTML; its title, if it begins with one, is left out.

    >>> print(render_markdown("# Title\n## Part\n<b> [a](javascript:x) $\\frac{$"))
    <h4>Part</h4>
    <p>&lt;b&gt; [a](javascript:x) <code class="formula">\frac{</code></p>
    <BLANKLINE>
    """
    if len(text) > MARKDOWN_CHARS_MAX:
        return Markup("<pre>{}</pre>").format(text)
    # An image would be a request to another host.
    parser = markdown_parser().disable("image")
    tokens = parser.parse(text)
    if tokens and (tokens[0].type, tokens[0].tag) == ("heading_open", "h1"):
        # Its opening, its text and its end.
        del tokens[:3]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + HEADING_LEVELS)}"
    # The parser escapes raw HTML, and shows a link with another scheme as text.
    page = parser.renderer.render(tokens, parser.options, {})
    # A wide block is scrolled by the keyboard, too.
    return Markup(page.replace("<pre>", '<pre tabindex="0">'))  # noqa: S704


CUDA_WORDS = """
    alignas alignof asm auto bool break case catch char class concept const consteval constexpr
    const_cast continue decltype default delete do double dynamic_cast else enum explicit extern
    false float for friend if inline int long mutable namespace new noexcept nullptr operator
    private protected public reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this throw true try typedef typename union
    unsigned using virtual void volatile while
    __constant__ __device__ __forceinline__ __global__ __host__ __launch_bounds__ __noinline__
    __restrict__ __shared__
"""
STRING = r""""(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?"""
PYTHON_STRING = (
    r"""(?:[rbfuRBFU]{1,2}(?=["']))?(?:\"{3}(?s:.*?)(?:\"{3}|\Z)|'{3}(?s:.*?)(?:'{3}|\Z)|"""
    + STRING
    + ")"
)
CUDA_COMMENT = r"//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)"


@lru_cache
def _code_pattern(language: str) -> re.Pattern[str]:
    """Return the pattern of the parts of a source that have a class, and of all other words.

    It takes linear time for any text, unlike the lexers of Pygments: a submission of 16,000
    characters kept that for Python busy for 3 s with lines of one space, and one of 10,000 kept
    that for C++ busy for 9 s with spaces (AMD EPYC, Pygments 2.21, 2026-11).
    """
    is_python = language == "python"
    keywords = kwlist if is_python else CUDA_WORDS.split()
    groups = {
        "comment": r"#[^\n]*" if is_python else CUDA_COMMENT,
        "string": PYTHON_STRING if is_python else STRING,
        "name": r"@[\w.]+|(?<=\bdef )\w+|(?<=\bclass )\w+" if is_python else r"#[ \t]*\w+",
        "keyword": rf"\b(?:{'|'.join(keywords)})\b",
        "number": r"\b\d[\w.]*",
    }
    return re.compile("|".join(f"(?P<{css}>{text})" for css, text in groups.items()) + r"|\w+")


@lru_cache(SOURCES_MAX)
def highlight_code(text: str, language: str) -> Markup:
    """Return source code as safe HTML, with a class on its keywords, strings and comments.

    >>> print(highlight_code("return '<b>'", "python"))
    <span class="keyword">return</span> <span class="string">&#39;&lt;b&gt;&#39;</span>
    >>> print(highlight_code("__global__ void f()", "cuda"))
    <span class="keyword">__global__</span> <span class="keyword">void</span> f()
    """
    code = escape_control_characters(text)
    if language not in SUFFIXES or len(code) > HIGHLIGHT_CHARS_MAX:
        return escape(code)
    pieces, end = [], 0
    for match in _code_pattern(language).finditer(code):
        if match.lastgroup is not None:
            pieces.append(escape(code[end : match.start()]))
            span = Markup('<span class="{}">{}</span>')
            pieces.append(span.format(match.lastgroup, match[0]))
            end = match.end()
    return Markup("").join([*pieces, escape(code[end:])])


# What `highlight_code` makes of a part: nothing is nested in it.
SPAN = re.compile(r'<span class="(\w+)">([^<]*)</span>')


def split_lines(code: Markup) -> list[Markup]:
    """Return highlighted code line by line; a part of several lines is divided.

    >>> [str(line) for line in split_lines(highlight_code("x = '[]'\\n'''a\\nb'''", "python"))][1:]
    ['<span class="string">&#39;&#39;&#39;a</span>', '<span class="string">b&#39;&#39;&#39;</span>']
    """

    def divide(match: re.Match[str]) -> str:
        parts = match[2].split("\n")
        return "\n".join(f'<span class="{match[1]}">{part}</span>' for part in parts)

    return [Markup(line) for line in SPAN.sub(divide, code).split("\n")]  # noqa: S704
