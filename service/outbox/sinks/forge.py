"""The common part of the sinks for GitHub, GitLab and Gerrit: where they write, and when."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from service import models
from service.outbox import forge_comments, pull_request_news
from service.outbox.events import noun_of
from service.outbox.post import NotDelivered
from service.outbox.sinks import sink
from service.outbox.sinks.forge_api import ForgeApi, ForgeRefused
from service.schemas.pull_requests import ForgeKind, Repository
from service.wording import pull_request
from service.wording import pull_request as words

_ABOUT_FINDINGS = frozenset(
    {
        models.EventKind.FINDING_OPENED,
        models.EventKind.FINDING_REOPENED,
        models.EventKind.FINDING_RECOVERED,
        models.EventKind.FINDING_WITHDRAWN,
        models.EventKind.BISECTION_ENDED,
    }
)


@dataclass(frozen=True, slots=True)
class Place:
    """A pull request of a repository that a sink may write to."""

    repository: str
    number: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, as a forge lists it."""

    id: str
    body: str
    author: str
    """However the forge names authors."""


class Forge(sink.Sink):
    """A sink that writes on pull requests; a subclass knows one forge's API."""

    forge: ClassVar[ForgeKind]
    title: ClassVar[str]
    edits: ClassVar[bool] = True
    """Whether a comment can be edited, and so follow the gates."""
    api: str
    repositories: Annotated[tuple[Repository, ...], Field(min_length=1, max_length=50)]
    """Those that it may write to."""
    events: frozenset[models.EventKind] = frozenset(models.EventKind)

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        sink.web_address(self.api, private=self.private, field="api")
        if self.digest is not None or self.quiet is not None:
            raise ValueError("a forge follows what happens: leave digest and quiet out")
        return self

    def hears(self, event: models.OutboxEvent) -> bool:
        """Return True for what happens to pull requests of its repositories, and for findings."""
        if event.pull_request:
            mine = self.place(event.pull_request) is not None
            return mine and event.kind in self.events and self.project in (None, event.project)
        return event.kind in _ABOUT_FINDINGS and super().hears(event)

    def place(self, key: str) -> Place | None:
        """The pull request of a key, if this sink may write on it."""
        forge, _, rest = key.partition(":")
        repository, _, number = rest.rpartition("#")
        if forge != self.forge or not number.isdecimal():
            return None
        same = (one for one in self.repositories if one.lower() == repository.lower())
        known = next(same, None)  # forges ignore case
        return Place(known, int(number)) if known else None

    def send(self, event: models.OutboxEvent, sending: sink.Sending) -> None:
        """Write what is stored by now, whichever event tells of it."""
        match noun_of(event.kind):
            case "comparison":
                self._tell_of_gates(event, sending)
            case "command":
                self._answer(event, sending)
            case "finding" | "bisection":
                self._tell_of_finding(event, sending)
            case _:
                for repository in self.repositories:
                    self.open(repository, sending.within_s).call("GET", self.probe(repository))

    def _tell_of_gates(self, event: models.OutboxEvent, sending: sink.Sending) -> None:
        """Show the state of the gate at its commit, and all newest gates in the comment.

        What is stored is read while nobody else writes there, so that the last one to write has
        read the newest.
        """
        place = self._placed(event)
        with forge_comments.held(sending.database, self.name, event.pull_request) as held:
            with sending.database.reading() as session:
                gates = pull_request_news.gates_of(session, event.pull_request, sending.address)
            told = next((one for one in gates if one.id == event.subject), None)
            if told is None:  # a long time ago, and many gates have come since
                return
            same = (told.name, told.head)
            gate = next(one for one in gates if (one.name, one.head) == same)
            api = self.open(place.repository, sending.within_s)
            self.show_state(api, place, gate)
            if self.edits:
                said = words.gates_comment(pull_request_news.newest(gates))
                self._write(api, held, place, f"gate {sending.address}", said)

    def _answer(self, event: models.OutboxEvent, sending: sink.Sending) -> None:
        place = self._placed(event)
        subject = f"command:{event.subject}"
        with forge_comments.held(sending.database, self.name, subject) as held:
            api = self.open(place.repository, sending.within_s)
            self._write(api, held, place, f"command {event.subject}", event.sentence)

    def _tell_of_finding(self, event: models.OutboxEvent, sending: sink.Sending) -> None:
        """Comment on the merged pull request of a commit that made a finding.

        What was said is edited as the finding goes on. What is over is not said for the first time.
        """
        with sending.database.reading() as session:
            finding_id = pull_request_news.finding_of(session, event)
        if finding_id is None:
            return
        subject = f"finding:{finding_id}"
        with forge_comments.held(sending.database, self.name, subject) as held:
            with sending.database.reading() as session:
                shown = pull_request_news.shown_finding(session, finding_id, sending.address)
            if shown is None or (shown.state != "open" and not held.number):
                return
            if (place := self._merged(held, shown.commit, sending)) is not None:
                api = self.open(place.repository, sending.within_s)
                self._write(api, held, place, subject, words.finding_comment(shown))

    def _merged(
        self, held: forge_comments.HeldComment, commit: str, sending: sink.Sending
    ) -> Place | None:
        """The merged pull request of a commit, in the first repository that has one."""
        if held.number:
            return Place(held.repository, held.number)
        for repository in self.repositories:
            api = self.open(repository, sending.within_s)
            try:
                number = self.merged(api, repository, commit)
            except ForgeRefused as fault:
                if fault.status not in (404, 422):  # this repository has no such commit
                    raise
                continue
            if number is not None:
                held.keep(repository, number, "")
                return Place(repository, number)
        return None

    def _write(
        self, api: ForgeApi, held: forge_comments.HeldComment, place: Place, subject: str, said: str
    ) -> None:
        """Edit the comment of a subject, or make it where there is none.

        One that was made before a crash is found by its marker, and has to be this sink's own.
        """
        body = f"<!-- throughline {subject} -->\n{said}"
        marker = body.partition("\n")[0]
        if held.comment_id and self.edit(api, place, held.comment_id, body):
            return
        marked = [one for one in self.comments(api, place) if one.body.startswith(marker)]
        own = self.author(api) if marked else ""
        comment_id = next((one.id for one in marked if one.author == own), None)
        if comment_id is None or not self.edit(api, place, comment_id, body):
            comment_id = self.create(api, place, body)
        held.keep(place.repository, place.number, comment_id)

    def _placed(self, event: models.OutboxEvent) -> Place:
        if (place := self.place(event.pull_request)) is None:
            raise NotDelivered("The file of sinks does not name its repository.", final=True)
        return place

    @abstractmethod
    def open(self, repository: str, within_s: float) -> ForgeApi:
        """Begin a conversation about a repository."""

    @abstractmethod
    def probe(self, repository: str) -> str:
        """The path that tells of a repository, which a test reads."""

    @abstractmethod
    def show_state(self, api: ForgeApi, place: Place, gate: pull_request.ShownGate) -> None:
        """Show where a gate stands, at the newest commit of its pull request."""

    @abstractmethod
    def comments(self, api: ForgeApi, place: Place) -> Iterator[Comment]:
        """Yield the comments of a pull request, the oldest first."""

    @abstractmethod
    def author(self, api: ForgeApi) -> str:
        """The author of this sink's own comments."""

    @abstractmethod
    def create(self, api: ForgeApi, place: Place, body: str) -> str:
        """Write a new comment; its id."""

    @abstractmethod
    def edit(self, api: ForgeApi, place: Place, comment_id: str, body: str) -> bool:
        """Write a comment anew; False if somebody has deleted it."""

    @abstractmethod
    def merged(self, api: ForgeApi, repository: str, commit: str) -> int | None:
        """The number of the merged pull request that brought a commit; None if none did."""


def edited(api: ForgeApi, method: str, path: str, document: object) -> bool:
    """Send an edit; False if there is nothing to edit any more."""
    try:
        api.call(method, path, document)
    except ForgeRefused as fault:
        if fault.status in (404, 410):
            return False
        raise
    return True
