"""Generates docs/advisory-screen.md, the page of the rules that label sources for moderators."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill

from ranker.domain.screen_rules import RULES, SCREEN_VERSION, Rule
from ranker.domain.source_screen import LINES_MAX
from shared.api.labels import SEVERITIES

PAGE = Path(__file__).parent / "advisory-screen.md"
LINE_CHARS = 100
SEVERITY_TEXTS = {
    "high": "An honest kernel hardly ever needs these.",
    "medium": "Some honest kernels need these.",
    "low": "Many honest kernels do these; the list of a moderator shows them on request only.",
}


def pages() -> Mapping[Path, str]:
    """Return the page and its text."""
    head = f"""# Advisory screen

Generated from `services/ranker/src/ranker/domain/screen_rules.py` by `make docs`; a test fails when
this page is stale.

The advisory screen reads the sources of ranked submissions and **labels** what a moderator should
look at: a rule, the first {LINES_MAX} lines of each file that match it, and why. A label is not a
verdict. It changes neither a score nor a rank, and refuses and holds nothing: the harness judges
answers and times, whatever a source looks like. What a problem forbids is a matter of its
[shortcut policy](writing-a-problem.md#shortcut-policy).

- Moderators list labelled submissions with `warpboard admin label list`, under *Labels* on
  operators' pages, and with [`GET /v1/admin/labels`](http.md#reads).
  `warpboard admin label show NUMBER` and the page of the submission quote the lines.
- Participants see no labels, neither their own nor others', because honest kernels have some, and a
  label reads like an accusation. If a moderator holds or disqualifies a submission, its owner reads
  the moderator's rule and reason, and may appeal. The rules are on this page for everybody
  ([why](adr/problem-checks.md#decision)).
- Python is read through its syntax tree, with names resolved through imports and assignments. C++
  and CUDA, also in strings of Python, are read by patterns, without comments. Nothing is run.
- A label follows from the source, the suffix of its file name and the version of the screen, now
  {SCREEN_VERSION}, alone. There is no event of it: a new version labels all sources again.
"""
    sections = [_section(severity) for severity in SEVERITIES]
    return {PAGE: "\n".join([head, *sections])}


def _section(severity: str) -> str:
    rules = [_describe(rule) for rule in RULES if rule.severity == severity]
    return f"## {severity.capitalize()}\n\n{SEVERITY_TEXTS[severity]}\n\n" + "\n".join(rules)


def _describe(rule: Rule) -> str:
    text = fill(f"The source {rule.title}. {rule.why}", LINE_CHARS)
    return f"### {rule.id}\n\n{text}\n"
