"""Network addresses as settings write them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

URLS = "http://127.0.0.1:8080 or http://[::1]:8080, with a port from 1 to 65535"


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
    check_no_secret(text)
    if not _is_base_url(text):
        raise ValueError(f"{text!r} is no base URL: must be like {URLS}")


def check_no_secret(text: str) -> None:
    """Raise ValueError, which does not repeat it, if a secret may be in an address or a URL."""
    if "@" in text:
        raise ValueError(
            "a base URL carries no user and no password; give a key by SPEECH_CLIENT_API_KEY"
        )
    if "?" in text or "#" in text:
        raise ValueError("a base URL has nothing after a ? or a #: paths are put behind it")


def _is_base_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        is_port = url.port is None or url.port > 0
    except ValueError:
        return False
    is_web = url.scheme in ("http", "https") and bool(url.hostname)
    return is_web and is_port and not any(character.isspace() for character in text)


def is_private(host: str) -> bool | None:
    """Whether an IP address is not one of the internet; None for a name."""
    try:
        ip: IPv4Address | IPv6Address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return not (mapped or ip).is_global
