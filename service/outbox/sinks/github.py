"""GitHub, github.com or an Enterprise Server: a status or check, and one comment."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal, Self
from urllib.parse import quote

import jwt
from pydantic import Field, SecretStr, model_validator

from service.models import OutboxEvent
from service.outbox.post import NotDelivered
from service.outbox.sinks import forge_api, hooks, sink
from service.outbox.sinks.forge import Comment, Place, edited
from service.schemas.comparisons import ComparisonState
from service.schemas.gate import Outcome
from service.schemas.pull_requests import ForgeKind
from service.wording import pull_request

_VERSION = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
_STATES: dict[Outcome | None, str] = {
    Outcome.PASS: "success",
    Outcome.REGRESSION: "failure",
    Outcome.INCONCLUSIVE: "error",
}
_CONCLUSIONS = {Outcome.PASS: "success"}
"""Anything else fails: a rule that asks for a check takes a neutral one as passed."""
_LASTS_S, _SKEW_S = 540, 60
"""GitHub takes a signed token for 10 minutes at most, by its own clock."""
_EARLY_S = 120.0
"""A token is not begun with when it ends so soon."""


_KEPT: dict[tuple[str, int, str], tuple[str, float]] = {}
"""Tokens of an App's installations and their ends (Unix time), by address, App and repository."""


class GitHub(hooks.HookedForge):
    """Repositories of GitHub, as a person's or bot's token or as an App may write to them."""

    kind: Literal["github"]
    forge: ClassVar[ForgeKind] = ForgeKind.GITHUB
    title: ClassVar[str] = "GitHub"
    api: str = "https://api.github.com"
    token: sink.Kept | None = None
    app: int | None = Field(default=None, ge=1)
    private_key: sink.Kept | None = None
    """Of the App, in PEM."""

    @model_validator(mode="after")
    def _knows_itself(self) -> Self:
        is_app = self.app is not None and self.private_key is not None
        if (self.token is None) != is_app or (self.app is None) != (self.private_key is None):
            raise ValueError("github needs either a token, or app and private_key")
        return self

    def open(self, repository: str, within_s: float) -> forge_api.ForgeApi:
        """Begin with the token, or with that of the App's installation."""

        def begin(token: str) -> forge_api.ForgeApi:
            headers = _VERSION | {"Authorization": f"Bearer {token}"}
            base = self.api.rstrip("/")
            return forge_api.ForgeApi(self.title, base, self.private, within_s, headers, (token,))

        if self.token is not None:
            return begin(self.token.get_secret_value())
        assert self.app is not None
        assert self.private_key is not None
        return begin(installation_token(begin, self.app, self.private_key, repository))

    def send(self, event: OutboxEvent, sending: sink.Sending) -> None:
        """Write; an App's token that GitHub takes no more is not tried again."""
        try:
            super().send(event, sending)
        except forge_api.ForgeRefused as fault:
            if fault.status == 401:
                forget_tokens(self.app)
            raise

    def probe(self, repository: str) -> str:
        """The repository's own path."""
        return f"repos/{repository}"

    def show_state(
        self, api: forge_api.ForgeApi, place: Place, gate: pull_request.ShownGate
    ) -> None:
        """Set a commit status, or the App's check run."""
        if self.app is not None:
            self._check(api, place, gate)
            return
        running = gate.state is ComparisonState.RUNNING
        document = {
            "state": "pending" if running else _STATES.get(gate.outcome, "error"),
            "context": f"throughline/{gate.name}",
            "description": pull_request.description(gate),
            "target_url": gate.link,
        }
        api.call("POST", f"repos/{place.repository}/statuses/{gate.head}", document)

    def _check(self, api: forge_api.ForgeApi, place: Place, gate: pull_request.ShownGate) -> None:
        name, head = f"throughline/{gate.name}", gate.head
        document: dict[str, Any] = {
            "name": name,
            "details_url": gate.link,
            "external_id": gate.id,
            "status": "in_progress" if gate.state is ComparisonState.RUNNING else "completed",
            "output": {
                "title": pull_request.description(gate),
                "summary": pull_request.gates_comment([gate]),
            },
        }
        if gate.state is ComparisonState.CANCELLED:
            document["conclusion"] = "cancelled"
        elif gate.outcome is not None:
            document["conclusion"] = _CONCLUSIONS.get(gate.outcome, "failure")
        runs = f"repos/{place.repository}/check-runs"
        asked = f"check_name={quote(name, safe='')}&app_id={self.app}"
        there = f"repos/{place.repository}/commits/{head}/check-runs?{asked}"
        found = api.call("GET", there)["check_runs"]
        if found:
            api.call("PATCH", f"{runs}/{int(found[0]['id'])}", document)
        else:
            api.call("POST", runs, document | {"head_sha": head})

    def comments(self, api: forge_api.ForgeApi, place: Place) -> Iterator[Comment]:
        """Yield the comments of the conversation."""
        for one in api.pages(f"repos/{place.repository}/issues/{place.number}/comments"):
            app = one.get("performed_via_github_app") or {}
            author = f"app {app.get('id')}" if self.app else str((one["user"] or {}).get("id"))
            yield Comment(str(one["id"]), one["body"] or "", author)

    def author(self, api: forge_api.ForgeApi) -> str:
        """The App, or whoever's token it is."""
        return f"app {self.app}" if self.app else str(api.call("GET", "user")["id"])

    def create(self, api: forge_api.ForgeApi, place: Place, body: str) -> str:
        """Write into the conversation."""
        path = f"repos/{place.repository}/issues/{place.number}/comments"
        return str(api.call("POST", path, {"body": body})["id"])

    def edit(self, api: forge_api.ForgeApi, place: Place, comment_id: str, body: str) -> bool:
        """Edit in place."""
        path = f"repos/{place.repository}/issues/comments/{comment_id}"
        return edited(api, "PATCH", path, {"body": body})

    def merged(self, api: forge_api.ForgeApi, repository: str, commit: str) -> int | None:
        """Ask for the pull requests of the commit."""
        found = api.call("GET", f"repos/{repository}/commits/{commit}/pulls")
        merged = [one for one in found if one.get("merged_at")]
        exact = [one for one in merged if one.get("merge_commit_sha") == commit]
        return next((int(one["number"]) for one in (*exact, *merged)), None)

    def signatures(self, key: bytes, headers: Mapping[str, str], body: bytes) -> tuple[str, str]:
        """``X-Hub-Signature-256``, and the digest of the body."""
        signed = "sha256=" + hmac.digest(key, body, hashlib.sha256).hex()
        return headers.get("x-hub-signature-256", ""), signed

    def comment_in(self, headers: Mapping[str, str], hook: Any) -> hooks.Spoken | None:
        """Read an ``issue_comment``."""
        if headers.get("x-github-event") != "issue_comment" or hook["action"] != "created":
            return None
        issue, comment = hook["issue"], hook["comment"]
        if "pull_request" not in issue or comment["user"]["type"] == "Bot":
            return None
        place = self.place(f"github:{hook['repository']['full_name']}#{issue['number']}")
        if place is None:
            return None
        return hooks.Spoken(
            place, str(int(comment["id"])), comment["user"]["login"], comment["body"]
        )

    def permits(self, api: forge_api.ForgeApi, spoken: hooks.Spoken) -> bool:
        """Ask for the author's permission."""
        path = f"repos/{spoken.place.repository}/collaborators/{quote(spoken.author)}/permission"
        try:
            return api.call("GET", path)["permission"] in ("admin", "write")
        except forge_api.ForgeRefused as fault:
            if fault.status == 404:
                return False
            raise

    def ends(self, api: forge_api.ForgeApi, place: Place) -> tuple[str, str]:
        """Ask where the branches parted."""
        pull = api.call("GET", f"repos/{place.repository}/pulls/{place.number}")
        base, head = pull["base"]["sha"], pull["head"]["sha"]
        parted = api.call("GET", f"repos/{place.repository}/compare/{base}...{head}?per_page=1")
        return parted["merge_base_commit"]["sha"], head


def installation_token(
    begin: Callable[[str], forge_api.ForgeApi], app: int, key: SecretStr, repository: str
) -> str:
    """The token of an App where it is installed; ``begin`` opens a conversation with a token.

    Raises:
        NotDelivered: GitHub gives none, or the key is no private key.
    """
    signed = signed_token(app, key)
    api = begin(signed)
    name = (api.base, app, repository)
    kept = _KEPT.get(name)
    if kept is None or kept[1] - time.time() < _EARLY_S:
        installation = api.call("GET", f"repos/{repository}/installation")["id"]
        made = api.call("POST", f"app/installations/{int(installation)}/access_tokens", {})
        ends = datetime.fromisoformat(made["expires_at"])
        kept = _KEPT[name] = made["token"], ends.timestamp()
    return kept[0]


def forget_tokens(app: int | None) -> None:
    """Drop an App's tokens, of which GitHub took one no more."""
    for name in [name for name in _KEPT if name[1] == app]:
        _KEPT.pop(name, None)


def signed_token(app: int, key: SecretStr) -> str:
    """The token by which an App shows who it is (RS256)."""
    now = int(time.time())
    claims = {"iat": now - _SKEW_S, "exp": now + _LASTS_S, "iss": str(app)}
    try:
        return jwt.encode(claims, key.get_secret_value(), algorithm="RS256")
    except (ValueError, TypeError, jwt.PyJWTError):
        raise NotDelivered("private_key is no RSA key in PEM.", final=True) from None
