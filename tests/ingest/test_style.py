"""The style sheet of the pages."""

import re
from importlib.resources import files

STYLE = files("ingest.site").joinpath("static/site.css").read_text(encoding="utf-8")


def test_the_style_sheet_defines_each_variable_that_it_uses() -> None:
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", STYLE))
    defined = set(re.findall(r"(--[a-z0-9-]+):", STYLE))
    assert used
    assert used - defined == set()


def test_each_colour_has_a_dark_value() -> None:
    light, dark = re.findall(r":root \{(.*?)\n *\}", STYLE, re.DOTALL)[:2]
    colours = set(re.findall(r"(--[a-z0-9-]+): #", light))
    assert colours
    assert colours == set(re.findall(r"(--[a-z0-9-]+): #", dark))
