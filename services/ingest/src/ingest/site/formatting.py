"""How the pages show values: the filters of the templates, and statements in Markdown."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markupsafe import Markup

from shared.clock import now
from shared.presentation.outcome import roofline_text, share_text, speedups_text
from shared.presentation.report_parts import verdict_text
from shared.presentation.units import (
    about_text,
    count_text,
    escape_control_characters,
    interval_text,
    numbers_text,
    one_line,
    rank_text,
    seconds_text,
    spread_text,
    time_text,
)

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
# A longer statement is shown as it is.
MARKDOWN_CHARS_MAX = 100_000
STATEMENTS_MAX = 64
FORMULA = re.compile(r"\$\$(?P<display>[^$]+)\$\$|\$(?P<inline>[^$\n]+)\$")
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


FILTERS: Mapping[str, Callable[..., object]] = {
    "about": about_text,
    "count": count_text,
    "gap": gap_text,
    "interval_text": interval_text,
    "numbers": numbers_text,
    "one_line": one_line,
    "plain": escape_control_characters,
    "rank": rank_text,
    "roofline": roofline_text,
    "seconds": seconds_text,
    "share": share_text,
    "speedups": speedups_text,
    "spread": spread_text,
    "time_left": time_left_text,
    "time_text": time_text,
    "verdict_text": verdict_text,
}


def _parse_formula(state: StateInline, silent: bool) -> bool:
    """Show a formula as its source; without this rule, Markdown would change it."""
    match = FORMULA.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        token = state.push("code_inline", "code", 0)
        token.content = (match["display"] or match["inline"]).strip()
        token.attrSet("class", "formula")
    state.pos = match.end()
    return True


@lru_cache(STATEMENTS_MAX)
def render_markdown(text: str) -> Markup:
    r"""Return a statement as safe HTML; its title, if it begins with one, is left out.

    >>> print(render_markdown("# Title\n## Part\n<b> [a](javascript:x) $a_1 < b_1$"))
    <h4>Part</h4>
    <p>&lt;b&gt; [a](javascript:x) <code class="formula">a_1 &lt; b_1</code></p>
    <BLANKLINE>
    """
    if len(text) > MARKDOWN_CHARS_MAX:
        return Markup("<pre>{}</pre>").format(text)
    # Raw HTML is shown as text, and an image would be a request to another host.
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    parser.inline.ruler.before("escape", "formula", _parse_formula)
    tokens = parser.parse(text)
    if tokens and (tokens[0].type, tokens[0].tag) == ("heading_open", "h1"):
        # Its opening, its text and its end.
        del tokens[:3]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + HEADING_LEVELS)}"
    # The parser escapes raw HTML, and refuses links with a script.
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704
