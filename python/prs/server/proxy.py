"""Proxies that variables name, and what they are shown."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from prs.server.address import Address


def proxy_for(address: Address) -> SplitResult | None:
    """The proxy that the variables name for a server; none for one of this machine."""
    if address.is_loopback or proxy_bypass(address.host):
        return None
    named = getproxies().get(address.scheme) or getproxies().get("all")
    return urlsplit(named if "://" in named else f"http://{named}") if named else None


def login(proxy: SplitResult) -> dict[str, str]:
    """What a proxy is shown whose URL has a password."""
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {b64encode(pair).decode()}"}
