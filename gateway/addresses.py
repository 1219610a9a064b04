"""Network addresses as settings write them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit


def host_and_port(host: str, port: int) -> str:
    """Return host:port, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(text: str) -> tuple[str, int]:
    """Return host (without brackets) and port; raises ValueError that says what fits."""
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and 0 < int(port) < 2**16
    is_bare_v6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not host or is_bare_v6 or any(c in "/, " for c in text) or not is_port:
        raise ValueError("must be host:port, with a port from 1 to 65535 and no scheme")
    return host.strip("[]"), int(port)


def check_url(text: str) -> None:
    """Raise ValueError, which says what fits, unless this is the base URL of a service."""
    url = urlsplit(text)
    is_port = url.port is None or url.port > 0
    if url.scheme not in ("http", "https") or not url.hostname or " " in text or not is_port:
        raise ValueError("must be like http://127.0.0.1:8080")


def is_private(host: str) -> bool | None:
    """Whether an IP address is not one of the internet; None for a name."""
    try:
        ip: IPv4Address | IPv6Address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return not (mapped or ip).is_global
