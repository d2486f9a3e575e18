"""What measuring took of the devices, and what that cost at the operator's prices."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import Field

from service.schemas.document import Document

Words = Annotated[str, Field(min_length=1, max_length=200)]


class Price(Document):
    """A price of one kind of GPU, from a date on until a later one."""

    gpu: Words
    """As a worker's label ``gpu`` names it."""
    usd_per_hour: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
    """Of one GPU."""
    since: date
    source: Words
    """Who says so, such as a contract or a price list."""


class Spent(Document):
    """The use of the devices by attempts, so far."""

    attempts: int
    gpu_s: float
    """Seconds for which attempts held GPUs, times the GPUs of their workers."""
    cpu_s: float
    """Seconds of workers without a GPU."""
    usd: float | None = None
    """The cost of the GPUs that have a price; None if none has one."""
    unpriced_gpu_s: float = 0.0
    """Seconds of GPUs without a price, which ``usd`` leaves out."""
    prices: tuple[Price, ...] = ()
    """Those that ``usd`` rests on."""
