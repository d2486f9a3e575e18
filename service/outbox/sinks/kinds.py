"""The kinds of sinks, and the operator's TOML file that names sinks."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from benchmarks.contracts import Worded
from service.outbox.sinks.forge import Forge
from service.outbox.sinks.gerrit import Gerrit
from service.outbox.sinks.github import GitHub
from service.outbox.sinks.gitlab import GitLab
from service.outbox.sinks.mail import Mail
from service.outbox.sinks.sink import Sink
from service.outbox.sinks.slack import Slack
from service.outbox.sinks.webhook import Webhook
from service.schemas.errors import FileWrong

AnySink = Annotated[Webhook | Slack | Mail | GitHub | GitLab | Gerrit, Field(discriminator="kind")]
"""Every kind of sink; a new one is added here."""


class SinksWrong(FileWrong):
    """The file of sinks cannot be used; the sentence holds no secret of it."""


class Sinks(BaseModel):
    """The whole file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: Annotated[
        str,
        StringConstraints(pattern=r"^https?://[^\s<>|]*[^\s<>|/]$"),
        Worded("must begin with https:// or http://, and not end with /"),
    ]
    """How links to this service's pages begin."""
    sink: tuple[AnySink, ...] = ()

    @model_validator(mode="after")
    def _have_names(self) -> Self:
        names = [one.name for one in self.sink]
        if len(set(names)) < len(names):
            raise ValueError("two sinks have the same name")
        forges = [one for one in self.sink if isinstance(one, Forge)]
        named = [(one.forge, repository) for one in forges for repository in one.repositories]
        if len(set(named)) < len(named):
            raise ValueError("two sinks write to the same repository")
        return self

    def named(self, name: str) -> Sink | None:
        """The sink of a name; None if there is none."""
        return next((one for one in self.sink if one.name == name), None)


NOBODY = Sinks(address="http://localhost")
"""Without a file nobody hears anything."""


def load(path: Path) -> Sinks:
    """Read the operator's file.

    Raises:
        SinksWrong: it cannot be read, or says something wrong.
    """
    try:
        document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return Sinks.model_validate(document)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        said = fault["msg"].removeprefix("Value error, ")
        raise SinksWrong(f"{path}: {_place(fault['loc'])}: {said}.".replace(": : ", ": ")) from None
    except OSError as error:
        raise SinksWrong(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError:  # what TOML's parser says may quote a secret
        raise SinksWrong(f"{path} is not TOML in UTF-8.") from None


def _place(parts: tuple[int | str, ...]) -> str:
    """Name a place in the file, such as ``sink 1 events``: pydantic adds the kind after the 1."""
    named = parts[:2] + parts[3:] if parts[:1] == ("sink",) else parts
    return " ".join(str(part + 1 if isinstance(part, int) else part) for part in named)
