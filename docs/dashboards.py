"""The Grafana dashboards in `deploy/grafana/dashboards`, from the tables of dashboard_panels."""

import json
import math
from pathlib import Path

from docs.alert_rules import Condition, alert_rules
from docs.dashboard_panels import DASHBOARDS, Dashboard, Graph, Panel, Query, Section, Stat
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models

FOLDER = Path(__file__).parent.parent / "deploy" / "grafana" / "dashboards"
SOURCE = models.DataSourceRef(type_val="prometheus", uid="warpboard")
# The external label of prometheus.yml, which Watchdog carries into a series of Prometheus's own.
GUIDE = 'label_values(ALERTS{alertname="Watchdog"}, guide)'
COLUMNS = 24
STAT_WIDTH, STAT_HEIGHT = 4, 4
GRAPH_WIDTH, GRAPH_HEIGHT = 8, 8
COLORS = {"critical": "red", "warning": "orange"}


def threshold_steps(condition: Condition, color: str) -> list[models.Threshold]:
    """Return the steps whose color is `color` exactly where the condition holds.

    A step of Grafana includes its value. Where a condition does not, the step is at the next
    number that a float can express.
    """
    after = math.nextafter(condition.bound, math.inf)
    low, high, step = {
        ">": ("green", color, after),
        ">=": ("green", color, condition.bound),
        "<": (color, "green", condition.bound),
        "<=": (color, "green", after),
        "==": (color, "green", after),
    }[condition.comparison]
    return [models.Threshold(value=None, color=low), models.Threshold(value=step, color=high)]


def build_thresholds(name: str, part: int) -> builders.ThresholdsConfig:
    """Return the thresholds of an alert's condition."""
    rule = alert_rules()[name]
    steps = threshold_steps(rule.conditions[part], COLORS[rule.severity])
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _query(query: Query, place: int, *, is_instant: bool) -> prometheus.Dataquery:
    built = prometheus.Dataquery().expr(query.expr).legend_format(query.legend or "__auto")
    built = built.ref_id(chr(ord("A") + place))
    return built.instant() if is_instant else built.range()


def _runbook(name: str) -> builders.DashboardLink:
    page = alert_rules()[name].page.removesuffix(".md")
    return (
        builders.DashboardLink(f"Runbook of {name}")
        .type(models.DashboardLinkType.LINK)
        .url(f"${{guide}}/{page}")
        .target_blank(True)
    )


def _description(panel: Panel) -> str:
    return f"{panel.description} Empty {panel.empty}." if panel.empty else panel.description


def _build_stat(panel: Stat) -> stat.Panel:
    built = (
        stat.Panel()
        .title(panel.title)
        .description(_description(panel))
        .datasource(SOURCE)
        .unit(panel.unit)
        .thresholds(build_thresholds(panel.alert, panel.part))
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .links([_runbook(panel.alert)])
        .span(STAT_WIDTH)
        .height(STAT_HEIGHT)
    )
    if panel.empty:
        built.no_value("none")
    for place, query in enumerate(panel.queries):
        built.with_target(_query(query, place, is_instant=True))
    return built


def _build_graph(panel: Graph) -> timeseries.Panel:
    built = (
        timeseries.Panel()
        .title(panel.title)
        .description(_description(panel))
        .datasource(SOURCE)
        .unit(panel.unit)
        .fill_opacity(10)
        .line_width(1)
        .show_points(common.VisibilityMode.AUTO)
        .tooltip(
            common_builders.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
        )
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .span(GRAPH_WIDTH)
        .height(GRAPH_HEIGHT)
    )
    if panel.alert:
        style = common_builders.GraphThresholdsStyleConfig()
        built.thresholds(build_thresholds(panel.alert, panel.part))
        built.thresholds_style(style.mode(common.GraphThresholdsStyleMode.DASHED))
        built.links([_runbook(panel.alert)])
    for place, query in enumerate(panel.queries):
        built.with_target(_query(query, place, is_instant=False))
    return built


def _add_section(board: builders.Dashboard, section: Section, y: int, panel_id: int) -> int:
    """Add a row and its panels from `y` on; return where the next row begins."""
    row = models.GridPos(h=1, w=COLUMNS, x=0, y=y)
    board.with_row(builders.Row(section.title).grid_pos(row).id(panel_id))
    x, y, height = 0, y + 1, 0
    for place, panel in enumerate(section.panels, panel_id + 1):
        built = _build_stat(panel) if isinstance(panel, Stat) else _build_graph(panel)
        is_stat = isinstance(panel, Stat)
        w, h = (STAT_WIDTH, STAT_HEIGHT) if is_stat else (GRAPH_WIDTH, GRAPH_HEIGHT)
        if x + w > COLUMNS:
            x, y, height = 0, y + height, 0
        board.with_panel(built.grid_pos(models.GridPos(h=h, w=w, x=x, y=y)).id(place))
        x, height = x + w, max(height, h)
    return y + height


def build(dashboard: Dashboard) -> models.Dashboard:
    """Return a dashboard for Grafana."""
    board = (
        builders.Dashboard(dashboard.title)
        .uid(f"warpboard-{dashboard.name}")
        .description(dashboard.description)
        .tags(["warpboard"])
        .timezone("utc")
        .refresh("10s")
        .time("now-1h", "now")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(
            builders.QueryVariable("guide")
            .label("Address of the documentation")
            .query(GUIDE)
            .datasource(SOURCE)
            .refresh(models.VariableRefresh.ON_DASHBOARD_LOAD)
            .hide(models.VariableHide.HIDE_VARIABLE)
        )
        .link(
            builders.DashboardLink("Dashboards")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags(["warpboard"])
            .as_dropdown(False)
            .keep_time(True)
        )
        .link(
            builders.DashboardLink("Operating Warpboard")
            .type(models.DashboardLinkType.LINK)
            .url("${guide}/docs/operating")
            .target_blank(True)
        )
    )
    y, panel_id = 0, 1
    for section in dashboard.sections:
        y = _add_section(board, section, y, panel_id)
        panel_id += 1 + len(section.panels)
    return board.build()


def pages() -> dict[Path, str]:
    """The files as they should be."""
    return {
        FOLDER / f"{dashboard.name}.json": json.dumps(
            build(dashboard), cls=JSONEncoder, indent=1, sort_keys=True
        )
        + "\n"
        for dashboard in DASHBOARDS
    }
