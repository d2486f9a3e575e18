"""A small server that speaks as S3 does: what the service asks of a bucket, and no more.

Tests that use it run against a real one just as well: see `bucket`.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree as ET

SERVER = "THROUGHLINE_TEST_S3"
"""Address of a real server, such as moto's, that has the bucket ``traces``."""
ACCESS = {
    "AWS_ACCESS_KEY_ID": "somebody",
    "AWS_SECRET_ACCESS_KEY": "secret-of-somebody",
    "AWS_REGION": "us-east-1",
}


class Bucket(ThreadingHTTPServer):
    """The objects, with the times of their puts, and what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        self.signed: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: Bucket
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.objects[self._key()] = (body, datetime.now(UTC))
        self._answer(200, tag=body)

    def do_GET(self) -> None:
        if "list-type" in parse_qs(urlsplit(self.path).query):
            self._answer(200, self._listing())
        elif found := self.server.objects.get(self._key()):
            self._answer(200, found[0], tag=found[0], at=found[1])
        else:
            self._answer(404)

    do_HEAD = do_GET  # noqa: N815 - as the base class calls it

    def do_DELETE(self) -> None:
        self.server.objects.pop(self._key(), None)
        self._answer(204)

    def do_POST(self) -> None:
        """Delete several."""
        asked = ET.fromstring(self.rfile.read(int(self.headers["Content-Length"])))
        done = ET.Element("DeleteResult")
        for key in asked.iter():
            if key.tag.rpartition("}")[2] == "Key":
                self.server.objects.pop(f"traces/{key.text}", None)
                ET.SubElement(ET.SubElement(done, "Deleted"), "Key").text = key.text
        self._answer(200, ET.tostring(done))

    def _key(self) -> str:
        self.server.signed.append(self.headers.get("Authorization", ""))
        return urlsplit(self.path).path.strip("/")

    def _listing(self) -> bytes:
        root = ET.Element("ListBucketResult")
        ET.SubElement(root, "IsTruncated").text = "false"
        for key, (body, at) in sorted(self.server.objects.items()):
            one = ET.SubElement(root, "Contents")
            ET.SubElement(one, "Key").text = key.removeprefix("traces/")
            ET.SubElement(one, "LastModified").text = at.isoformat()
            ET.SubElement(one, "Size").text = str(len(body))
        return ET.tostring(root)

    def _answer(
        self, status: int, body: bytes = b"", tag: bytes = b"", at: datetime | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.md5(tag).hexdigest()}"')
        self.send_header("Last-Modified", format_datetime(at or datetime.now(UTC), usegmt=True))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def bucket() -> Iterator[tuple[dict[str, str], Bucket | None]]:
    """The environment with which a bucket ``traces`` is reached; None for a real server's."""
    if real := os.environ.get(SERVER):
        yield {**ACCESS, "AWS_ENDPOINT_URL": real}, None
        return
    with Bucket() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield {**ACCESS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}, server
        finally:
            server.shutdown()
            thread.join()
