"""Deadlines as people read them: in UTC, which all share, and on their own clock."""

from datetime import UTC, datetime, tzinfo


def both(at: datetime, zone: tzinfo | None = None) -> str:
    """An instant in UTC and on the clock of a zone, by default that of this machine.

    >>> from datetime import timedelta, timezone
    >>> both(datetime(2026, 12, 1, 18, tzinfo=UTC), timezone(timedelta(hours=1), "CET"))
    '2026-12-01 18:00 UTC (2026-12-01 19:00 CET here)'
    >>> both(datetime(9999, 12, 31, 18, tzinfo=UTC), timezone(timedelta(hours=9), "JST"))
    '9999-12-31 18:00 UTC'
    """
    said = f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    try:
        here = at.astimezone(zone)
    except OverflowError:
        # Some write the last day there is for never, and east of London it is over before.
        return said
    return (
        said
        if here.utcoffset() == UTC.utcoffset(None)
        else f"{said} ({here:%Y-%m-%d %H:%M %Z} here)"
    )
