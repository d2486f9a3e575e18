"""Addresses that may be connected to: public ones, and others only where the operator said so."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_TRANSLATED = ip_network("64:ff9b::/96")
"""IPv4 addresses as a NAT64 gateway reads them."""


class AddressRefused(Exception):
    """The host has no address that may be connected to."""


async def resolve(host: str, port: int, *, private: bool) -> list[str]:
    """Look up the addresses of a host; all must be public unless ``private``.

    Raises:
        AddressRefused: the host is not known, or one of its addresses is not public.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AddressRefused("The host's name is not known.") from None
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    if not private and not all(map(is_public, addresses)):
        raise AddressRefused("The host has a private address, and private = true is not set.")
    return addresses


def is_public(text: str) -> bool:
    """Return True if an address is reached over the internet, whichever way it is written."""
    address = _embedded(ip_address(text.partition("%")[0]))
    return address.is_global and not address.is_multicast


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address inside an IPv6 one, where there is one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
