"""The server's key, without which what is stored of tokens is worth nothing."""

from __future__ import annotations

import hmac
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from service.schemas.errors import DatabaseUnavailable
from service.settings import Settings

_NAME = "access.key"


@dataclass(frozen=True, slots=True)
class Key:
    """256 bits that hash every token."""

    value: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """Names the key without telling it; stands beside what was hashed with it."""
        return hmac.digest(self.value, b"throughline access key", "sha256").hex()[:16]


def of(settings: Settings) -> Key:
    """The key of the service with these settings.

    Raises:
        DatabaseUnavailable: see `load`.
    """
    return load(settings.state_dir, settings.access_key.get_secret_value())


def load(state_dir: Path, given: str = "") -> Key:
    """The key that was given (64 hexadecimal digits), or that of the state folder.

    The folder's is made when it is first needed, in a file that only its owner may read. Replicas
    on several machines must be given one and the same.

    Raises:
        DatabaseUnavailable: the file can be neither read nor made, or is damaged.
    """
    if given:
        return Key(bytes.fromhex(given))
    path = state_dir / _NAME
    try:
        text = _read_or_make(path)
        return Key(_whole(bytes.fromhex(text)))
    except ValueError:
        raise DatabaseUnavailable(
            f"The server key in {path} is damaged; bring it back from a backup, or remove it and "
            "make every token anew."
        ) from None
    except OSError as error:
        raise DatabaseUnavailable(
            f"The server key {path} cannot be used ({error.strerror}); make its folder writable, "
            "or set THROUGHLINE_ACCESS_KEY to 64 hexadecimal digits."
        ) from error


def _whole(value: bytes) -> bytes:
    if len(value) != 32:
        raise ValueError("a key has 32 bytes")
    return value


def _read_or_make(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    write_private(draft, secrets.token_hex(32))
    try:
        os.link(draft, path)  # whoever is first makes it; everybody reads that one
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text().strip()


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, from its first byte on."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
