"""The alert rules of `deploy/prometheus/alerts.yml`, taken apart for the dashboards.

A stat of a dashboard shows the left side of an alert's comparison and turns red at its right side,
so that neither the query nor the threshold can differ from the alert's.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import promql_parser
import yaml
from promql_parser import BinaryExpr, Expr, NumberLiteral, ParenExpr

RULES = Path(__file__).parent.parent / "deploy" / "prometheus" / "alerts.yml"
GUIDE = "{{ $externalLabels.guide }}/"
COMPARISONS = frozenset({">", ">=", "<", "<=", "=="})


class Condition(NamedTuple):
    """One comparison of an alert: it fires while `expr` `comparison` `bound` holds."""

    expr: str
    comparison: str
    bound: float


class AlertRule(NamedTuple):
    """An alert; `page` is its runbook page, a path in the repository."""

    name: str
    severity: str
    summary: str
    expr: str
    page: str

    @property
    def conditions(self) -> list[Condition]:
        """Its comparisons in order, each with what excludes series (`unless`, `and`)."""
        return list(_conditions(promql_parser.parse(self.expr)))


def _conditions(expr: Expr) -> Iterator[Condition]:
    if isinstance(expr, ParenExpr):
        yield from _conditions(expr.expr)
    if not isinstance(expr, BinaryExpr):
        return
    operator = str(expr.op)
    if operator in ("and", "unless"):
        # The series that are left out of the alert are left out here, too.
        compared, whole = _text(expr.lhs), _text(expr)
        for condition in _conditions(expr.lhs):
            yield condition._replace(expr=whole.replace(compared, condition.expr, 1))
    if operator == "or":
        yield from _conditions(expr.lhs)
        yield from _conditions(expr.rhs)
    if operator in COMPARISONS:
        left = _text(expr.lhs)
        if isinstance(expr.rhs, NumberLiteral):
            yield Condition(left, operator, expr.rhs.val)
        else:
            yield Condition(f"{left} - {_text(expr.rhs)}", operator, 0.0)


def _text(expr: Expr) -> str:
    """Return an expression on one line.

    >>> _text(promql_parser.parse('max by (gpu)  (warpboard_x{a="b"})'))
    'max by (gpu) (warpboard_x{a="b"})'
    """
    return " ".join(expr.prettify().split()).replace("( ", "(").replace(" )", ")")


def parse_rules(text: str) -> dict[str, AlertRule]:
    """Return the alerts of a rules file by their names. Errors: ValueError for a wrong page."""
    groups = yaml.safe_load(text)["groups"]
    return {rule["alert"]: _parse_rule(rule) for group in groups for rule in group["rules"]}


def _parse_rule(rule: dict[str, str | dict[str, str]]) -> AlertRule:
    name, expr, labels, annotations = (
        rule[key] for key in ("alert", "expr", "labels", "annotations")
    )
    assert isinstance(name, str)
    assert isinstance(expr, str)
    assert isinstance(labels, dict)
    assert isinstance(annotations, dict)
    address = annotations.get("runbook_url", "")
    if not address.startswith(GUIDE):
        message = (
            f"{name}: runbook_url must begin with {GUIDE!r}, as in alerts.yml, not {address!r}"
        )
        raise ValueError(message)
    page = f"{address.removeprefix(GUIDE)}.md"
    return AlertRule(name, labels["severity"], annotations["summary"], expr, page)


@cache
def alert_rules() -> dict[str, AlertRule]:
    """Return the deployed alerts by their names."""
    return parse_rules(RULES.read_text(encoding="utf-8"))
