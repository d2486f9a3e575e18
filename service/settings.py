"""Every setting of the service, read from ``THROUGHLINE_*`` in the environment and nowhere else."""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

_KEY = re.compile(r"[0-9a-fA-F]{64}")
_SERIES = re.compile(r"[0-9a-f]{32}")
MOST_PINNED = 100
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


class Access(StrEnum):
    """Whether the service asks for tokens."""

    AUTO = "auto"
    """On the loopback for changes, and for reading too once an administrator was given one;
    elsewhere always."""
    TOKENS = "tokens"
    """Always."""
    OPEN = "open"
    """Never."""


class Settings(BaseSettings):
    """How one replica of the service runs; a test makes its own."""

    model_config = SettingsConfigDict(env_prefix="THROUGHLINE_", frozen=True, extra="ignore")

    database_url: str | None = None
    """``sqlite:///path`` or ``postgresql://user@host/name``; without it a file in ``state_dir``."""
    state_dir: Path = Path(".throughline")
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8765
    access: Access = Access.AUTO
    published_at: str = ""
    """The address under which others reach this service, where that is not ``host``: inside a
    container the service listens everywhere, and the engine decides who reaches it."""
    proxies: str = ""
    """Addresses and networks of proxies, with commas, that are believed about who sent a request
    (``X-Forwarded-For``) and over what (``X-Forwarded-Proto``); from others both are ignored."""
    access_key: SecretStr = SecretStr("")
    """64 hexadecimal digits that hash the tokens; without them a file in ``state_dir``."""
    requests_per_s: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 500.0
    """Of one token, and twice as many at once; 0 sets no limit. Each replica counts for itself."""
    failures_per_min: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 60.0
    """Requests without a good token from one address; 0 sets no limit."""
    lease_s: Seconds = 60.0
    """How long a worker holds a job without a heartbeat: five heartbeats may be lost."""
    heartbeat_s: Seconds = 10.0
    sweep_s: Seconds = 5.0
    """How often expired leases and due schedules are looked for."""
    patience_s: Seconds = 900.0
    """How long the replicates of a case wait for the worker that began them."""
    max_lost_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    """A job whose attempts were lost this often is quarantined."""
    body_limit_b: Annotated[int, Field(ge=1)] = 16 * 2**20
    """For a request's JSON; the traces of a result hold every step of every replicate."""
    confirmations: Annotated[int, Field(ge=0, le=10_000)] = 20
    """Suspicious results that are measured again in a day; 0 leaves analysis to the history."""
    bisections: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Processes a day that bisections of confirmed findings may use without being asked for; 0:
    none begins by itself."""
    backfill: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Jobs a day for the commits between two measured ones where a level changed, and for what is
    least certain; 0: none."""
    pinned: str = ""
    """Ids of at most 100 series, with commas, whose newest values ``/metrics`` has."""
    public_badges: bool = False
    """Whether the badges of pinned series need no token."""
    notice: Annotated[str, Field(max_length=500)] = ""
    """A sentence that stands at the top of every page."""
    artifacts: str | None = None
    """Folder of traces and logs, or ``s3://bucket/prefix``; without it a folder beside the
    database."""
    artifacts_direct: bool = False
    """True: readers fetch them from the bucket itself, by addresses that are good for minutes."""
    traces_days: Annotated[int, Field(ge=0, le=36_500)] = 90
    """For how many days traces are kept; 0: for good."""
    logs_days: Annotated[int, Field(ge=0, le=36_500)] = 30
    """For how many days the logs of failures are kept; 0: for good."""
    outbox: Path | None = None
    """The TOML file that names the sinks of events; without it nobody is told."""
    prices: Path | None = None
    """The TOML file that says what an hour of each GPU costs; without it hours are shown alone."""
    bodies_limit_b: Annotated[int, Field(ge=1)] = 256 * 2**20
    """For the bodies of all requests that are being read or worked on."""
    answers_limit_b: Annotated[int, Field(ge=1)] = 128 * 2**20
    """For all large answers that clients have not taken yet."""
    head_timeout_s: Seconds = 10.0
    """For a request's line and headers to come."""
    body_timeout_s: Seconds = 60.0
    """For a request's body to come."""
    answer_timeout_s: Seconds = 60.0
    """For a client to take an answer, from the moment that it lies untaken."""
    idle_timeout_s: Annotated[int, Field(ge=1, le=3_600)] = 15
    """How long a connection may wait for its next request."""
    connections: Annotated[int, Field(ge=1, le=100_000)] = 4_000
    """Connections at once; one more is answered 503 and closed."""
    threads: Annotated[int, Field(ge=1, le=64)] = 4
    """Requests that use the database at once; more only makes them wait for each other."""
    role: Literal["all", "web", "analysis"] = "all"
    """``web``: without the process that analyses results; ``analysis``: that process alone."""
    background: bool = True
    """Whether this replica sweeps, fires schedules, and has results analysed."""

    @field_validator("access_key")
    @classmethod
    def _has_256_bits(cls, key: SecretStr) -> SecretStr:
        if key.get_secret_value() and not _KEY.fullmatch(key.get_secret_value()):
            raise ValueError("must be 64 hexadecimal digits, such as `openssl rand -hex 32` prints")
        return key

    @field_validator("proxies")
    @classmethod
    def _are_addresses(cls, text: str) -> str:
        for address in _parts(text):
            try:
                ipaddress.ip_network(address)
            except ValueError:
                raise ValueError(
                    "must be addresses or networks, with commas, such as 127.0.0.1,10.0.0.0/8"
                ) from None
        return text

    @field_validator("pinned")
    @classmethod
    def _are_series(cls, text: str) -> str:
        ids = _parts(text)
        if len(ids) > MOST_PINNED or not all(map(_SERIES.fullmatch, ids)):
            raise ValueError(f"must be at most {MOST_PINNED} ids of series, with commas")
        return text

    @property
    def pinned_series(self) -> list[str]:
        """The pinned series one by one."""
        return _parts(self.pinned)

    @property
    def named_proxies(self) -> list[str]:
        """The proxies one by one."""
        return _parts(self.proxies)

    @property
    def reached_at(self) -> str:
        """The address under which others reach this service."""
        return self.published_at or self.host

    @property
    def url(self) -> str:
        """The address of the database in effect."""
        return self.database_url or f"sqlite:///{self.state_dir / 'throughline.sqlite3'}"
