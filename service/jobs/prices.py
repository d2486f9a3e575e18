"""The prices of GPUs: the operator's TOML file. Without one there are none."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from service.schemas.costs import Price
from service.schemas.document import Document
from service.schemas.errors import FileWrong


class PricesWrong(FileWrong):
    """The file of prices cannot be used."""


class _PriceFile(Document):
    model_config = ConfigDict(extra="forbid")
    price: tuple[Price, ...]


def load(path: Path) -> tuple[Price, ...]:
    """Read the operator's file.

    Raises:
        PricesWrong: it cannot be read, or says something wrong.
    """
    try:
        return _PriceFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).price
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        place = " ".join(map(str, fault["loc"]))
        raise PricesWrong(f"{path}: {place}: {fault['msg']}.") from None
    except OSError as error:
        raise PricesWrong(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise PricesWrong(f"{path} is not TOML in UTF-8: {error}.") from None


def price_at(prices: Sequence[Price], gpu: str, at: datetime) -> Price | None:
    """The price of a kind of GPU at a time: the newest from then or before."""
    known = (one for one in prices if one.gpu == gpu and one.since <= at.date())
    return max(known, key=lambda one: one.since, default=None)
