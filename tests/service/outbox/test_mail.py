"""Mail, handed to a server that somebody else wrote; and webhooks, read by somebody else's code."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword
from builders.receiver import closed_port, receiving
from pydantic import ValidationError
from standardwebhooks import Webhook as Verifier

from service.database.session import Database
from service.models import EventKind, OutboxEvent
from service.outbox.post import NotDelivered
from service.outbox.sinks import Sending, mail
from service.outbox.sinks.mail import Mail
from service.outbox.sinks.webhook import Webhook
from service.schemas.nights import Cost, Coverage, NightReport

AT = datetime(2026, 11, 27, 6, tzinfo=UTC)
ADDRESS = "https://perf.example.com"
NIGHT = NightReport(
    night=AT.date(), project=None, begins=AT, ends=AT, finished=True, schedules=["nightly"],
    revisions=["r9"], changed=[], recovered=[], expected_false=0.0, doubted=0, unmeasured=[],
    not_submitted=[], coverage=[Coverage(workload="unet", asked=2, measured=2)],
    cost=Cost(attempts=2, gpu_s=7_200, cpu_s=0, energy_j=None, results=2, with_energy=0),
)  # fmt: skip


class Mailbox:
    """What came, and how it is answered."""

    def __init__(self) -> None:
        self.answer = "250 taken"
        self.refused: dict[str, str] = {}
        self.received: list[EmailMessage] = []
        self.recipients: list[str] = []

    async def handle_RCPT(  # noqa: N802 - as aiosmtpd names it
        self, _: SMTP, __: Any, envelope: Envelope, to: str, ___: Any
    ) -> str:
        if to in self.refused:
            return self.refused[to]
        envelope.rcpt_tos.append(to)
        return "250 known"

    async def handle_DATA(  # noqa: N802 - as aiosmtpd names it
        self, _: SMTP, __: Any, envelope: Envelope
    ) -> str:
        assert isinstance(envelope.content, bytes)
        self.received.append(message_from_bytes(envelope.content, policy=policy.default))
        self.recipients += envelope.rcpt_tos
        return self.answer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of localhost, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    files = ("-keyout", str(folder / "key"), "-out", str(folder / "cert"))
    made = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    named = ("-subj", "/CN=mail", "-addext", "subjectAltName=DNS:localhost")
    subprocess.run(["openssl", "req", *made, *files, *named], check=True, capture_output=True)
    return folder / "cert", folder / "key"


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def serve(
    mailbox: Mailbox, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Serves the mailbox on the loopback, with STARTTLS, TLS or neither."""
    trusted = ssl.create_default_context(cafile=str(certificate[0]))
    monkeypatch.setattr(mail, "_tls", lambda: trusted)

    @contextmanager
    def serving(security: str = "none", **more: Any) -> Iterator[int]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
        at = {"starttls": "tls_context", "tls": "ssl_context"}.get(security)
        if security == "starttls":
            more |= {"require_starttls": True}
        extra = {} if at is None else {at: context}
        server = Controller(mailbox, hostname="127.0.0.1", port=closed_port(), **extra, **more)
        server.start()
        try:
            yield server.port
        finally:
            server.stop()

    return serving


def people(port: int, **more: Any) -> Mail:
    known = {"name": "team", "kind": "mail", "host": "localhost", "port": port, "private": True}
    known |= {"security": "none", "sender": "perf@example.com", "to": ["ada@example.com"]}
    return Mail.model_validate(known | more)


def event(**more: Any) -> OutboxEvent:
    known: dict[str, Any] = {"id": "0" * 31 + "1", "kind": EventKind.FINDING_OPENED, "at": AT}
    known |= {"subject": "f1", "headline": "unet is 5 % slower", "sentence": "Since r9."}
    known |= {"project": "", "size": 0.05, "details": None}
    return OutboxEvent(**(known | more))


def send(to: Mail | Webhook, what: OutboxEvent, within_s: float = 5.0) -> None:
    to.send(what, Sending(Database("sqlite:///unused"), ADDRESS, datetime.now(UTC), within_s))


def parts_of(received: EmailMessage) -> tuple[str, str]:
    return tuple(part.get_content() for part in received.iter_parts())  # type: ignore[return-value]


@pytest.mark.parametrize("security", ["starttls", "tls", "none"])
def test_a_mail_arrives_in_plain_text_and_in_html(
    serve: Callable[..., Any], mailbox: Mailbox, security: str
) -> None:
    with serve(security) as port:
        for _ in range(2):
            send(people(port, security=security), event(headline="unet <5 %> slower"))
    one, again = mailbox.received
    assert one["Message-ID"] == again["Message-ID"] == f"<{'0' * 31}1@example.com>"
    assert one["Subject"] == "Finding opened: unet <5 %> slower"
    assert (one["From"], one["To"]) == ("Throughline <perf@example.com>", "ada@example.com")
    assert one["Date"].datetime == AT
    text, html = parts_of(one)
    assert text.splitlines() == [
        "unet <5 %> slower", "", "Since r9.", "", f"{ADDRESS}/findings/f1",
    ]  # fmt: skip
    assert "unet &lt;5 %&gt; slower" in html
    assert f'<a href="{ADDRESS}/findings/f1">' in html
    assert one.as_bytes() != b""
    assert text == parts_of(again)[0]


def test_a_headline_begins_no_header_of_its_own(
    serve: Callable[..., Any], mailbox: Mailbox
) -> None:
    hostile = "a\r\nBcc: eve@example.com\r\n\r\nbody\x00\u2028" + "x" * 500
    with serve() as port:
        send(people(port), event(headline=hostile))
    [one] = mailbox.received
    assert one["Bcc"] is None
    assert mailbox.recipients == ["ada@example.com"]
    assert one["Subject"].startswith("Finding opened: a Bcc: eve@example.com body")
    assert len(one["Subject"]) == 200


def test_a_night_is_told_whole_with_links(serve: Callable[..., Any], mailbox: Mailbox) -> None:
    told = event(
        kind=EventKind.NIGHT_REPORTED, subject="2026-11-27", headline="x",
        details=NIGHT.model_dump(mode="json"),
    )  # fmt: skip
    listed = [{"title": "Night reported", "headline": "all <well>", "path": "/nights/2026-11-27"}]
    details = {"listed": listed, "more": 3, "night": told.details}
    with serve() as port:
        send(people(port), told)
        send(people(port), event(kind=EventKind.DIGEST, headline="4 events", details=details))
    for received in mailbox.received:
        text, html = parts_of(received)
        assert "2.0 GPU-hours in 2 attempts." in text
        assert f"{ADDRESS}/nights/2026-11-27" in text
        assert "<li>unet: 2 of 2 measured</li>" in html
    assert "all &lt;well&gt;" in parts_of(mailbox.received[1])[1]
    assert "And 3 earlier." in parts_of(mailbox.received[1])[0]


def test_who_must_log_in_does_and_a_wrong_password_is_said(
    serve: Callable[..., Any], mailbox: Mailbox
) -> None:
    def judge(*arguments: Any) -> AuthResult:
        known = arguments[-1]
        assert isinstance(known, LoginPassword)
        return AuthResult(success=known.password == b"right", handled=False)

    account = {"user": "perf", "security": "starttls"}
    with serve("starttls", authenticator=judge, auth_required=True) as port:
        send(people(port, password="right", **account), event())
        with pytest.raises(NotDelivered, match="answered 535") as refused:
            send(people(port, password="wrong", **account), event())
    assert "wrong" not in str(refused.value)
    assert len(mailbox.received) == 1


@pytest.mark.parametrize(("code", "final"), [("550 who is that?", True), ("450 later", False)])
def test_nobody_who_takes_it_is_a_failure_and_one_of_two_is_not(
    serve: Callable[..., Any], mailbox: Mailbox, code: str, final: bool
) -> None:
    mailbox.refused = {"ada@example.com": code}
    with serve() as port:
        with pytest.raises(NotDelivered, match=code[:3]) as refused:
            send(people(port), event())
        send(people(port, to=["ada@example.com", "bob@example.com"]), event())
    assert refused.value.final is final
    assert mailbox.recipients == ["bob@example.com"]


def test_a_server_in_trouble_is_told_in_one_sentence(
    serve: Callable[..., Any], mailbox: Mailbox
) -> None:
    mailbox.answer = "451 no \x1b[31m room"
    with serve() as port, pytest.raises(NotDelivered) as refused:
        send(people(port), event())
    assert str(refused.value) == "The mail server answered 451: no [31m room"
    with pytest.raises(NotDelivered, match=r"connection failed \(ConnectionRefusedError\)"):
        send(people(closed_port()), event())


def test_a_server_that_says_nothing_is_left_in_time() -> None:
    with receiving() as hook, pytest.raises(NotDelivered, match="connection failed"):
        send(people(hook.port), event(), within_s=0.1)


def test_a_certificate_of_another_host_is_refused(serve: Callable[..., Any]) -> None:
    with serve("tls") as port, pytest.raises(NotDelivered, match="SSLCertVerificationError"):
        send(people(port, security="tls", host="127.0.0.1"), event())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"private": False}, "unless private = true"),
        ({"user": "perf"}, "user and password come together"),
        ({"to": []}, "at least 1 item"),
        ({"to": ["ada@example.com\r\nBcc: eve@example.com"]}, "must be a bare address"),
        ({"sender": "Ada <ada@example.com>"}, "must be a bare address"),
        ({"digest": "7:30"}, "must be a time of day such as 07:30"),
        ({"quiet": "22-7"}, "must be as 22:00-07:00"),
        ({"quiet": "22:00-22:00"}, "must end at another time than it begins"),
        ({"timezone": "Mars/Olympus"}, "must be an IANA name"),
        ({"outcomes": ["slower"]}, "Input should be"),
    ],
)
def test_what_cannot_be_meant_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        people(25, **more)


def test_a_library_of_others_verifies_our_signature() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    known = {"name": "ci", "kind": "webhook", "secret": secret, "private": True}
    with receiving() as receiver:
        send(Webhook.model_validate(known | {"url": receiver.url()}), event())
        [one] = receiver.received
    document = Verifier(secret).verify(one.body, one.headers)
    assert document["data"]["headline"] == "unet is 5 % slower"
    with pytest.raises(Exception, match="No matching signature"):
        Verifier(secret).verify(one.body + b" ", one.headers)
