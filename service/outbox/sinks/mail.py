"""Mail over SMTP, with STARTTLS or TLS: each event as a letter, in plain text and in HTML."""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from functools import cache
from html import escape
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from benchmarks.contracts import Worded
from service.models import EventKind, OutboxEvent
from service.outbox import events
from service.outbox.addresses import AddressRefused, resolve
from service.outbox.post import NotDelivered, readable
from service.outbox.sinks import sink
from service.schemas.nights import NightReport
from service.wording import night as words

_PATIENCE = 3
"""Times as long as for a hook: mail servers make strangers wait before they greet."""
_SUBJECT = 200
"""Letters of a subject at most."""
_ADDRESS = r"^[^\s<>@,;:\"\\]{1,64}@[A-Za-z0-9.-]{1,253}$"
MailAddress = Annotated[
    str, StringConstraints(pattern=_ADDRESS), Worded("must be a bare address: ada@example.com")
]


class Mail(sink.Sink):
    """Some people; each event is one mail to all of them."""

    kind: Literal["mail"]
    host: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.:-]{1,253}$")]
    port: Annotated[int, Field(ge=1, le=65_535)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    """``tls`` from the first byte, usually on port 465; ``none`` only where ``private``."""
    user: sink.Kept | None = None
    password: sink.Kept | None = None
    sender: MailAddress
    to: Annotated[tuple[MailAddress, ...], Field(min_length=1, max_length=100)]

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        if self.security == "none" and not self.private:
            raise ValueError('security must be "starttls" or "tls" unless private = true')
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password come together")
        return self

    def send(self, event: OutboxEvent, sending: sink.Sending) -> None:
        """Hand one mail to the server; its Message-ID is the event's id in every attempt."""
        mail = self.message(event, sending.address)
        try:
            with self._connected(sending.within_s * _PATIENCE) as server:
                server.send_message(mail)
        except AddressRefused as error:
            raise NotDelivered(str(error)) from None
        except smtplib.SMTPRecipientsRefused as error:
            code, said = next(iter(error.recipients.values()))
            raise NotDelivered(_answered(code, said), final=code >= 500) from None
        except smtplib.SMTPResponseException as error:
            raise NotDelivered(_answered(error.smtp_code, error.smtp_error)) from None
        except (smtplib.SMTPException, OSError) as error:
            raise NotDelivered(f"The connection failed ({type(error).__name__}).") from None

    def message(self, event: OutboxEvent, address: str) -> EmailMessage:
        """Write an event down as a mail, the same in every attempt; links begin with ``address``.

        A line break in a headline would begin a header of its own.
        """
        mail = EmailMessage(policy=SMTP)
        subject = " ".join(f"{events.title_of(event)}: {event.headline}".split())
        mail["Subject"] = "".join(filter(str.isprintable, subject))[:_SUBJECT]
        mail["From"] = Address("Throughline", addr_spec=self.sender)
        mail["To"] = [Address(addr_spec=one) for one in self.to]
        mail["Date"] = event.at
        mail["Message-ID"] = f"<{event.id}@{self.sender.partition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"  # so that no absent reader's machine answers
        mail.set_content(plain_letter(event, address))
        mail.add_alternative(html_letter(event, address), subtype="html")
        return mail

    @contextmanager
    def _connected(self, within_s: float) -> Iterator[smtplib.SMTP]:
        """Connect to the first of the checked addresses that answers, and log in.

        Whatever the server does, the connection is cut after ``within_s`` seconds.
        """
        addresses = asyncio.run(resolve(self.host, self.port, private=self.private))
        server = self._server(within_s)
        timer = threading.Timer(within_s, _cut, (server,))
        timer.start()
        try:
            _connect(server, addresses, self.port)
            if self.security == "starttls":
                server.starttls(context=_tls())
            if self.user is not None and self.password is not None:
                server.login(self.user.get_secret_value(), self.password.get_secret_value())
            yield server
            server.quit()
        finally:
            timer.cancel()
            server.close()

    def _server(self, within_s: float) -> smtplib.SMTP:
        if self.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(timeout=within_s, context=_tls())
        else:
            server = smtplib.SMTP(timeout=within_s)
        # The certificate has to name the host; the connection goes to an address that was checked.
        server._host = self.host  # type: ignore[attr-defined]
        return server


def _connect(server: smtplib.SMTP, addresses: list[str], port: int) -> None:
    for address in addresses:
        try:
            server.connect(address, port)
        except OSError:
            if address == addresses[-1]:
                raise
        else:
            return


def _cut(server: smtplib.SMTP) -> None:
    if server.sock is not None:
        with contextlib.suppress(OSError):
            server.sock.shutdown(socket.SHUT_RDWR)


def _answered(code: int, said: bytes | str) -> str:
    shown = readable(said if isinstance(said, bytes) else said.encode())
    return f"The mail server answered {code}{shown and f': {shown}'}"


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def plain_letter(event: OutboxEvent, address: str) -> str:
    """Plain text; links begin with ``address``."""
    details = event.details or {}
    if event.kind == EventKind.NIGHT_REPORTED:
        return words.text(_account(details), address)
    if event.kind != EventKind.DIGEST:
        return f"{event.headline}\n\n{event.sentence}\n\n{address}{events.page_of(event)}\n"
    night = [words.text(_account(details["night"]), address)] if details["night"] else []
    listed = [
        f"{one['title']}: {one['headline']}\n{address}{one['path']}\n" for one in details["listed"]
    ]
    return "\n".join([*night, *listed, *_more(details)]) or f"{event.headline}.\n"


def html_letter(event: OutboxEvent, address: str) -> str:
    """A whole HTML page without styles, scripts or pictures of others."""
    details = event.details or {}
    if event.kind == EventKind.NIGHT_REPORTED:
        return words.as_html(_account(details), address)
    if event.kind != EventKind.DIGEST:
        link = _link(f"{address}{events.page_of(event)}", "See it")
        sentence = escape(event.sentence).replace("\n", "<br>")
        return words.page(event.headline, f"<p>{sentence}</p>\n<p>{link}</p>\n")
    items = "".join(
        f"<li>{escape(one['title'])}: {_link(address + one['path'], one['headline'])}</li>"
        for one in details["listed"]
    )
    parts = [f"<ul>{items}</ul>\n", *(f"<p>{escape(line)}</p>\n" for line in _more(details))]
    if details["night"]:
        night = _account(details["night"])
        told = f"<h2>{escape(night.title)}</h2>\n{words.html_body(night, address)}"
        parts = [told, "<h2>Events</h2>\n", *parts]
    return words.page(event.headline, "".join(parts))


def _account(details: Mapping[str, Any]) -> words.Account:
    return words.account(NightReport.model_validate(details))


def _more(details: Mapping[str, Any]) -> list[str]:
    return [f"And {details['more']} earlier."] if details["more"] else []


def _link(address: str, said: str) -> str:
    return f'<a href="{escape(address)}">{escape(said)}</a>'
