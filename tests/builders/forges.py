"""GitHub, GitLab and Gerrit on the loopback, as far as their documented APIs are used here.

Answers, errors and limits have the status, headers and bodies that the vendors document:
docs.github.com/rest, docs.gitlab.com/api and gerrit-review's REST API.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Reply = tuple[int, dict[str, str], Any]
HEAD, BASE, MERGED = "a" * 40, "b" * 40, "c" * 40
DOCUMENTATION = "https://docs.github.com/rest"


@dataclass(frozen=True)
class Call:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    document: Any
    """The body's JSON; None without a body."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class FakeForge:
    """What a forge holds, what it was asked, and the faults that a test wants."""

    port: int = 0
    calls: list[Call] = field(default_factory=list)
    fault: Callable[[Call], Reply | str | None] = lambda _: None
    """What happens in place of an answer: a reply, ``hang``, ``close``, or ``lost``: the request is
    done, and its answer never comes. None: nothing."""
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    numbers: int = 100
    lock: threading.RLock = field(default_factory=threading.RLock)
    over: threading.Event = field(default_factory=threading.Event)

    routes: tuple[tuple[str, str, str], ...] = ()

    def url(self, path: str = "") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def answer(self, call: Call) -> Reply:
        """Route a request to the method that answers it."""
        with self.lock:
            if (refusal := self.refuse(call)) is not None:
                return refusal
            for method, pattern, name in self.routes:
                if method == call.method and (found := re.fullmatch(pattern, call.path)):
                    reply: Reply = getattr(self, name)(call, *map(unquote, found.groups()))
                    return reply
            return self.missing()

    def refuse(self, call: Call) -> Reply | None:
        raise NotImplementedError

    def missing(self) -> Reply:
        raise NotImplementedError

    def next_id(self) -> int:
        self.numbers += 1
        return self.numbers

    def asked(self, pattern: str) -> list[Call]:
        return [call for call in self.calls if re.fullmatch(pattern, str(call))]

    def page(self, call: Call, items: list[Any]) -> Reply:
        size, number = int(call.query.get("per_page", 30)), int(call.query.get("page", 1))
        return 200, {}, items[(number - 1) * size : number * size]


@dataclass
class FakeGitHub(FakeForge):
    """One repository, its pull requests 1 to 99, of which 7 is merged."""

    repository: str = "acme/vision"
    token: str = "ghp_0123456789secret"
    app: int = 41
    me: int = 5
    statuses: list[dict[str, Any]] = field(default_factory=list)
    check_runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    permissions: dict[str, str] = field(default_factory=lambda: {"ann": "write", "bob": "read"})
    tokens: dict[str, float] = field(default_factory=dict)
    """Tokens of the App's installation, and when they end."""
    signed: Callable[[str], bool] = lambda _: False
    """Whether a token is the App's own, signed with its key."""

    def __post_init__(self) -> None:
        at = re.escape(f"/repos/{self.repository}")
        self.routes = (
            ("GET", at, "read_repository"),
            ("GET", "/user", "read_user"),
            ("GET", rf"{at}/installation", "read_installation"),
            ("POST", r"/app/installations/(\d+)/access_tokens", "make_token"),
            ("POST", rf"{at}/statuses/([0-9a-f]+)", "make_status"),
            ("GET", rf"{at}/commits/([0-9a-f]+)/check-runs", "list_runs"),
            ("POST", rf"{at}/check-runs", "make_run"),
            ("PATCH", rf"{at}/check-runs/(\d+)", "edit_run"),
            ("GET", rf"{at}/issues/(\d+)/comments", "list_comments"),
            ("POST", rf"{at}/issues/(\d+)/comments", "make_comment"),
            ("PATCH", rf"{at}/issues/comments/(\d+)", "edit_comment"),
            ("GET", rf"{at}/commits/([0-9a-f]+)/pulls", "list_pulls"),
            ("GET", rf"{at}/pulls/(\d+)", "read_pull"),
            ("GET", rf"{at}/compare/([0-9a-f]+)\.\.\.([0-9a-f]+)", "compare"),
            ("GET", rf"{at}/collaborators/([^/]+)/permission", "read_permission"),
        )

    def refuse(self, call: Call) -> Reply | None:
        given = call.headers.get("authorization", "").removeprefix("Bearer ")
        if call.path.endswith("/installation") or call.path.startswith("/app/"):
            known = self.signed(given)
        else:
            known = given == self.token or self.tokens.get(given, 0.0) > time.time()
        return None if known else self.error(401, "Bad credentials")

    def error(self, status: int, message: str, **headers: str) -> Reply:
        told = {"message": message, "documentation_url": DOCUMENTATION, "status": str(status)}
        return status, {name.replace("_", "-"): value for name, value in headers.items()}, told

    def missing(self) -> Reply:
        return self.error(404, "Not Found")

    def _by_app(self, call: Call) -> bool:
        return call.headers["authorization"].removeprefix("Bearer ") in self.tokens

    def read_repository(self, _: Call) -> Reply:
        return 200, {}, {"full_name": self.repository}

    def read_user(self, call: Call) -> Reply:
        if self._by_app(call):
            return self.error(403, "Resource not accessible by integration")
        return 200, {}, {"id": self.me, "login": "throughline-bot"}

    def read_installation(self, _: Call) -> Reply:
        return 200, {}, {"id": 77, "app_id": self.app}

    def make_token(self, _: Call, installation: str) -> Reply:
        assert installation == "77"
        made, ends = f"ghs_{self.next_id()}", time.time() + 3_600
        self.tokens[made] = ends
        shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends))
        return 201, {}, {"token": made, "expires_at": shown}

    def make_status(self, call: Call, commit: str) -> Reply:
        told = call.document
        assert told["state"] in ("error", "failure", "pending", "success")
        if len(told["description"]) > 140:
            return self.error(422, "Validation Failed: description is too long")
        self.statuses.append(told | {"sha": commit})
        return 201, {}, told

    def list_runs(self, call: Call, commit: str) -> Reply:
        named = call.query["check_name"]
        runs = [
            one
            for one in self.check_runs.values()
            if (one["head_sha"], one["name"]) == (commit, named)
        ]
        return 200, {}, {"total_count": len(runs), "check_runs": runs}

    def make_run(self, call: Call) -> Reply:
        if not self._by_app(call):
            return self.error(403, "You must authenticate via a GitHub App.")
        assert ("conclusion" in call.document) == (call.document["status"] == "completed")
        number = self.next_id()
        self.check_runs[number] = call.document | {"id": number}
        return 201, {}, self.check_runs[number]

    def edit_run(self, call: Call, number: str) -> Reply:
        self.check_runs[int(number)] |= call.document
        return 200, {}, self.check_runs[int(number)]

    def list_comments(self, call: Call, number: str) -> Reply:
        listed = [one for one in self.comments.values() if one["issue"] == int(number)]
        return self.page(call, listed)

    def make_comment(self, call: Call, number: str) -> Reply:
        if len(call.document["body"]) > 65_536:
            return self.error(422, "Validation Failed")
        app = {"id": self.app} if self._by_app(call) else None
        return 201, {}, self.say(int(number), call.document["body"], self.me, app)

    def say(self, number: int, body: str, user: int, app: Any = None) -> dict[str, Any]:
        """A comment that somebody writes."""
        with self.lock:
            made = {
                "id": self.next_id(),
                "issue": number,
                "body": body,
                "user": {"id": user},
                "performed_via_github_app": app,
            }
            self.comments[made["id"]] = made
            return made

    def edit_comment(self, call: Call, number: str) -> Reply:
        if (one := self.comments.get(int(number))) is None:
            return self.missing()
        if one["user"]["id"] != self.me:
            return self.error(403, "Must have admin rights to Repository.")
        one["body"] = call.document["body"]
        return 200, {}, one

    def list_pulls(self, _: Call, commit: str) -> Reply:
        if commit not in (MERGED, HEAD):
            return self.error(422, f"No commit found for SHA: {commit}")
        closed = {"number": 6, "merged_at": None, "merge_commit_sha": None}
        merged = {"number": 7, "merged_at": "2026-11-20T01:00:00Z", "merge_commit_sha": MERGED}
        return 200, {}, [closed, *([merged] if commit == MERGED else [])]

    def read_pull(self, _: Call, number: str) -> Reply:
        ends = {"base": {"sha": "d" * 40}, "head": {"sha": HEAD}}
        return 200, {}, {"number": int(number), **ends}

    def compare(self, _: Call, base: str, head: str) -> Reply:
        assert (base, head) == ("d" * 40, HEAD)
        return 200, {}, {"merge_base_commit": {"sha": BASE}}

    def read_permission(self, _: Call, login: str) -> Reply:
        if login not in self.permissions:
            return self.error(404, f"{login} is not a user")
        return 200, {}, {"permission": self.permissions[login]}


@dataclass
class FakeGitLab(FakeForge):
    """One project and its merge requests."""

    project: str = "acme/ml/vision"
    token: str = "glpat-0123456789secret"
    me: int = 5
    statuses: list[dict[str, Any]] = field(default_factory=list)
    levels: dict[int, int] = field(default_factory=lambda: {1: 30, 2: 20})

    def __post_init__(self) -> None:
        at = "/api/v4/projects/acme%2Fml%2Fvision"
        notes = rf"{at}/merge_requests/(\d+)/notes"
        self.routes = (
            ("GET", at, "read_project"),
            ("GET", "/api/v4/user", "read_user"),
            ("POST", rf"{at}/statuses/([0-9a-f]+)", "make_status"),
            ("GET", notes, "list_notes"),
            ("POST", notes, "make_note"),
            ("PUT", rf"{notes}/(\d+)", "edit_note"),
            ("GET", rf"{at}/repository/commits/([0-9a-f]+)/merge_requests", "list_merged"),
            ("GET", rf"{at}/merge_requests/(\d+)", "read_request"),
            ("GET", rf"{at}/members/all/(\d+)", "read_member"),
        )

    def refuse(self, call: Call) -> Reply | None:
        known = call.headers.get("private-token") == self.token
        return None if known else (401, {}, {"message": "401 Unauthorized"})

    def missing(self) -> Reply:
        return 404, {}, {"message": "404 Not found"}

    def read_project(self, _: Call) -> Reply:
        return 200, {}, {"path_with_namespace": self.project}

    def read_user(self, _: Call) -> Reply:
        return 200, {}, {"id": self.me, "username": "throughline"}

    def make_status(self, call: Call, commit: str) -> Reply:
        told = call.document
        assert told["state"] in ("pending", "running", "success", "failed", "canceled", "skipped")
        same = [one for one in self.statuses if (one["sha"], one["name"]) == (commit, told["name"])]
        if same and same[-1]["state"] == told["state"] == "running":
            reason = 'Reason: [Status cannot transition via "run"]'
            said = f"Cannot transition status via :run from :running ({reason})"
            return 400, {}, {"message": said}
        self.statuses.append(told | {"sha": commit})
        return 201, {}, told

    def list_notes(self, call: Call, number: str) -> Reply:
        listed = [one for one in self.comments.values() if one["noteable_iid"] == int(number)]
        return self.page(call, listed)

    def make_note(self, call: Call, number: str) -> Reply:
        return 201, {}, self.say(int(number), call.document["body"], self.me)

    def say(self, number: int, body: str, author: int) -> dict[str, Any]:
        with self.lock:
            made = {"id": self.next_id(), "noteable_iid": number, "body": body}
            made["author"] = {"id": author}
            self.comments[made["id"]] = made
            return made

    def edit_note(self, call: Call, _: str, note: str) -> Reply:
        if int(note) not in self.comments:
            return self.missing()
        self.comments[int(note)]["body"] = call.document["body"]
        return 200, {}, self.comments[int(note)]

    def list_merged(self, _: Call, commit: str) -> Reply:
        if commit != MERGED:
            return 404, {}, {"message": "404 Commit Not Found"}
        return 200, {}, [{"iid": 6, "state": "closed"}, {"iid": 7, "state": "merged"}]

    def read_request(self, _: Call, number: str) -> Reply:
        refs = {"base_sha": BASE, "head_sha": HEAD, "start_sha": "d" * 40}
        return 200, {}, {"iid": int(number), "diff_refs": refs}

    def read_member(self, _: Call, user: str) -> Reply:
        if int(user) not in self.levels:
            return 404, {}, {"message": "404 Not found"}
        return 200, {}, {"id": int(user), "access_level": self.levels[int(user)]}


@dataclass
class FakeGerrit(FakeForge):
    """One project, whose label is ``Verified``."""

    user: str = "throughline"
    password: str = "http/0123456789secret"
    votes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        change = r"/a/changes/acme%2Fvision~(\d+)"
        self.routes = (
            ("GET", "/a/projects/acme%2Fvision", "read_project"),
            ("GET", rf"{change}/messages", "list_messages"),
            ("POST", rf"{change}/revisions/([0-9a-f]+|current)/review", "review"),
            ("GET", "/a/changes/", "find"),
        )

    def refuse(self, call: Call) -> Reply | None:
        proof = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        known = call.headers.get("authorization") == f"Basic {proof}"
        return None if known else (401, {}, "Unauthorized")

    def missing(self) -> Reply:
        return 404, {}, "Not found: 12"

    def read_project(self, _: Call) -> Reply:
        return 200, {}, {"name": "acme/vision"}

    def list_messages(self, _: Call, number: str) -> Reply:
        return 200, {}, [one for one in self.comments.values() if one["change"] == number]

    def review(self, call: Call, number: str, revision: str) -> Reply:
        told = call.document
        labels = told.get("labels", {})
        if unknown := set(labels) - {"Verified"}:
            said = f'label "{unknown.pop()}" is not a configured label'
            return 400, {}, said
        self.votes += labels.values()
        made = {"id": f"{self.next_id():x}", "message": f"Patch Set 1:\n\n{told['message']}"}
        self.comments[self.numbers] = made | {
            "tag": told["tag"],
            "change": number,
            "revision": revision,
        }
        return 200, {}, {"labels": labels}

    def find(self, call: Call) -> Reply:
        asked = call.query["q"]
        known = f"commit:{MERGED}" in asked and "status:merged" in asked
        return 200, {}, [{"_number": 7}] if known else []


@contextmanager
def serving(forge: FakeForge) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(forge))
    server.daemon_threads = True
    forge.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        forge.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(forge: FakeForge) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            at = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(at.query).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            document = json.loads(body) if body else None
            assert self.command is not None
            call = Call(self.command, at.path, query, headers, document)
            with forge.lock:
                forge.calls.append(call)
            self.close_connection = True
            fault = forge.fault(call)
            if fault == "hang":
                forge.over.wait(30)
            if fault in ("hang", "close"):
                return
            reply = fault if isinstance(fault, tuple) else forge.answer(call)
            if fault != "lost":
                with contextlib.suppress(OSError):
                    self._say(*reply)

        def _say(self, status: int, headers: dict[str, str], told: Any) -> None:
            text = told if isinstance(told, str) else json.dumps(told)
            begins = ")]}'\n" if isinstance(forge, FakeGerrit) and not isinstance(told, str) else ""
            body = (begins + text).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_PUT = _any  # noqa: N815 - as the library calls them

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return Handler
