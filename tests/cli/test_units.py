"""Numbers, instants and foreign text as people read them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.presentation.units import (
    escape_control_characters,
    instant_text,
    interval_text,
    one_line,
    seconds_text,
    shorten_floats,
    time_text,
)


@pytest.mark.parametrize(
    ("time_us", "text"),
    [
        (12.3, "12.3 µs"),
        (4560.0, "4.56 ms"),
        (0.0123, "12.3 ns"),
        (123456.0, "123.5 ms"),
        (2_500_000.0, "2.5 s"),
        (999.96, "1 ms"),
        (0.99999, "1 µs"),
        (7_200_000_000.0, "7,200 s"),
        (0.0, "0 ns"),
        (None, "-"),
        (float("nan"), "-"),
        (float("inf"), "-"),
    ],
)
def test_a_time_is_told_in_the_unit_that_suits_it(time_us: float | None, text: str) -> None:
    assert time_text(time_us) == text


@given(st.floats(min_value=1e-3, max_value=1e8))
def test_a_time_keeps_four_significant_digits(time_us: float) -> None:
    number, unit = time_text(time_us).split()
    size_us = {"ns": 1e-3, "µs": 1.0, "ms": 1e3, "s": 1e6}[unit]
    assert float(number) * size_us == pytest.approx(time_us, rel=6e-4)


def test_an_interval_names_both_ends() -> None:
    assert interval_text((998.0, 1002.0)) == "998 µs to 1.002 ms"
    assert interval_text(None) == "-"


def test_a_duration_over_a_minute_is_told_in_minutes() -> None:
    assert seconds_text(59.94) == "59.9 s"
    assert seconds_text(61.2) == "1 min 01 s"


def test_an_instant_is_told_in_the_zone_of_the_reader() -> None:
    at = datetime(2026, 1, 2, 23, 30, tzinfo=UTC)
    assert instant_text(at, timezone(timedelta(hours=2))) == "2026-01-03 01:30:00 UTC+02:00"
    assert instant_text(None) == "-"


def test_floats_are_short_and_still_differ() -> None:
    assert shorten_floats("at [0]: got -1.2345678806304932e-07, expected 2.0") == (
        "at [0]: got -1.2346e-07, expected 2.0"
    )
    assert shorten_floats("got 1.0000001192092896, expected 1.0") == ("got 1.0000001, expected 1.0")
    assert (
        shorten_floats("version 1.2.3 of size=64, 0x1.8p3") == "version 1.2.3 of size=64, 0x1.8p3"
    )


def test_foreign_text_keeps_its_letters_and_loses_its_commands() -> None:
    assert escape_control_characters("größe\n\ttab") == "größe\n\ttab"
    assert escape_control_characters("\x1b]0;title\x07\r\x9b") == "\\x1b]0;title\\x07\\r\\x9b"


@given(st.text())
def test_a_cell_is_one_printable_line(text: str) -> None:
    cell = one_line(text, 40)
    assert cell.isprintable()
    assert len(cell) <= 40
