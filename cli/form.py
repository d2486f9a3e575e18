"""How a report or a comparison is printed."""

from enum import StrEnum

from cli.exits import Stop


class Form(StrEnum):
    """The forms that there are."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


def chosen(*, markdown: bool, as_json: bool) -> Form:
    """Read the two switches.

    Raises:
        Stop: both were given.
    """
    if markdown and as_json:
        raise Stop("Choose one of --markdown and --json.")
    return Form.MARKDOWN if markdown else Form.JSON if as_json else Form.TABLE
