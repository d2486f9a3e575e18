"""GitLab, gitlab.com or self-managed: a commit status, and one note."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from service.outbox.sinks import hooks
from service.outbox.sinks.forge import Comment, Place, edited
from service.outbox.sinks.forge_api import ForgeApi, ForgeRefused
from service.outbox.sinks.sink import Kept
from service.schemas.comparisons import ComparisonState
from service.schemas.gate import Outcome
from service.schemas.pull_requests import ForgeKind
from service.wording.pull_request import ShownGate, description

_STATES = {ComparisonState.RUNNING: "running", ComparisonState.CANCELLED: "canceled"}
_DEVELOPER = 30
"""The least access level that may push."""


class GitLab(hooks.HookedForge):
    """Projects of GitLab, named by their paths."""

    kind: Literal["gitlab"]
    forge: ClassVar[ForgeKind] = ForgeKind.GITLAB
    title: ClassVar[str] = "GitLab"
    api: str = "https://gitlab.com/api/v4"
    token: Kept
    """Of a person, group or project, with the scope ``api``."""

    def open(self, repository: str, within_s: float) -> ForgeApi:  # noqa: ARG002
        """Begin with the token."""
        token = self.token.get_secret_value()
        headers = {"PRIVATE-TOKEN": token}
        return ForgeApi(self.title, self.api.rstrip("/"), self.private, within_s, headers, (token,))

    def probe(self, repository: str) -> str:
        """The project's own path."""
        return _project(repository)

    def show_state(self, api: ForgeApi, place: Place, gate: ShownGate) -> None:
        """Set a commit status; GitLab refuses to set the one that is there already."""
        passed = "success" if gate.outcome is Outcome.PASS else "failed"
        document = {
            "state": _STATES.get(gate.state, passed),
            "name": f"throughline/{gate.name}",
            "description": description(gate),
            "target_url": gate.link,
        }
        path = f"{_project(place.repository)}/statuses/{gate.head}"
        try:
            api.call("POST", path, document)
        except ForgeRefused as fault:
            if fault.status != 400 or "Cannot transition status" not in str(fault):
                raise

    def comments(self, api: ForgeApi, place: Place) -> Iterator[Comment]:
        """Yield the notes."""
        for one in api.pages(f"{_notes(place)}?sort=asc&order_by=created_at"):
            yield Comment(str(one["id"]), one["body"] or "", str(one["author"]["id"]))

    def author(self, api: ForgeApi) -> str:
        """Whoever's token it is."""
        return str(api.call("GET", "user")["id"])

    def create(self, api: ForgeApi, place: Place, body: str) -> str:
        """Write a note."""
        return str(api.call("POST", _notes(place), {"body": body})["id"])

    def edit(self, api: ForgeApi, place: Place, comment_id: str, body: str) -> bool:
        """Edit in place."""
        return edited(api, "PUT", f"{_notes(place)}/{comment_id}", {"body": body})

    def merged(self, api: ForgeApi, repository: str, commit: str) -> int | None:
        """Ask for the merge requests of the commit."""
        path = f"{_project(repository)}/repository/commits/{commit}/merge_requests"
        found = api.call("GET", path)
        return next((int(one["iid"]) for one in found if one["state"] == "merged"), None)

    def signatures(self, key: bytes, headers: Mapping[str, str], body: bytes) -> tuple[str, str]:  # noqa: ARG002
        """``X-Gitlab-Token``, and the secret itself."""
        return headers.get("x-gitlab-token", ""), key.decode()

    def comment_in(self, headers: Mapping[str, str], hook: Any) -> hooks.Spoken | None:  # noqa: ARG002
        """Read a ``Note Hook``."""
        if hook["object_kind"] != "note" or "merge_request" not in hook:
            return None
        note, project = hook["object_attributes"], hook["project"]["path_with_namespace"]
        place = self.place(f"gitlab:{project}#{hook['merge_request']['iid']}")
        if place is None or note.get("action", "create") != "create":
            return None
        return hooks.Spoken(place, str(int(note["id"])), str(int(hook["user"]["id"])), note["note"])

    def permits(self, api: ForgeApi, spoken: hooks.Spoken) -> bool:
        """Ask for the author's access level, inherited ones too."""
        path = f"{_project(spoken.place.repository)}/members/all/{spoken.author}"
        try:
            return int(api.call("GET", path)["access_level"]) >= _DEVELOPER
        except ForgeRefused as fault:
            if fault.status == 404:
                return False
            raise

    def ends(self, api: ForgeApi, place: Place) -> tuple[str, str]:
        """Ask for the commits that its changes lie between."""
        path = f"{_project(place.repository)}/merge_requests/{place.number}"
        refs = api.call("GET", path)["diff_refs"]
        return refs["base_sha"], refs["head_sha"]


def _project(repository: str) -> str:
    return f"projects/{quote(repository, safe='')}"


def _notes(place: Place) -> str:
    return f"{_project(place.repository)}/merge_requests/{place.number}/notes"
