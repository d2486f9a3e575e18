"""Times of day at which a sink is told: quiet hours, and the hour of a digest. Pure."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]"
"""A time of day, such as ``07:30``."""
DAY = timedelta(days=1)


def quiet_until(hours: str, zone: ZoneInfo, now: datetime) -> datetime | None:
    """The end of the quiet ``hours``, such as ``22:00-07:00``; None if it is not quiet now."""
    begin, end = map(time.fromisoformat, hours.split("-"))
    local = now.astimezone(zone).time()
    inside = begin <= local < end if begin < end else local >= begin or local < end
    return following(end, zone, now) if inside else None


def following(at: time, zone: ZoneInfo, now: datetime) -> datetime:
    """The next moment after ``now`` at which the clock shows ``at``."""
    today = now.astimezone(zone).date()
    return next(moment for moment in _moments(at, zone, today - DAY) if moment > now)


def newest(at: time, zone: ZoneInfo, now: datetime) -> datetime:
    """The newest moment up to ``now`` at which the clock showed ``at``."""
    today = now.astimezone(zone).date()
    return max(moment for moment in _moments(at, zone, today - DAY) if moment <= now)


def _moments(at: time, zone: ZoneInfo, first: date) -> list[datetime]:
    """Each once on four days; a time that a clock change skips comes when the clock has jumped."""
    days = (first + number * DAY for number in range(4))
    return [datetime.combine(day, at, zone).astimezone(UTC) for day in days]
