"""The cookies of the web site: how they are named, set, read and deleted."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import Request, Response

SESSION_COOKIE = "warpboard_session"
# Browsers accept a cookie with this prefix only from this very host, over TLS and for all paths, so
# no neighbour under the same domain can plant one. Source: RFC 6265bis, 4.1.3.2.
HOST_PREFIX = "__Host-"


@dataclass(frozen=True)
class Cookies:
    """Cookies that scripts and forms of other sites cannot use; `is_secure` is for TLS."""

    is_secure: bool = False

    def name(self, cookie: str) -> str:
        """Return the name that a cookie has in the browser."""
        return f"{HOST_PREFIX}{cookie}" if self.is_secure else cookie

    def read(self, request: Request, cookie: str) -> str:
        """Return the value of a cookie; "" without one."""
        return request.cookies.get(self.name(cookie), "")

    def set(self, response: Response, cookie: str, value: str, life_s: int) -> None:
        """Set a cookie."""
        name, is_secure = self.name(cookie), self.is_secure
        response.set_cookie(name, value, life_s, httponly=True, samesite="lax", secure=is_secure)

    def clear(self, response: Response, *cookies: str) -> None:
        """Delete cookies."""
        for cookie in cookies:
            name, is_secure = self.name(cookie), self.is_secure
            response.delete_cookie(name, httponly=True, samesite="lax", secure=is_secure)


def site_cookies(public_url: str) -> Cookies:
    """Return the cookies of a platform at this URL.

    >>> site_cookies("https://kernels.example.org").name(SESSION_COOKIE)
    '__Host-warpboard_session'
    >>> site_cookies("http://127.0.0.1:8000").name(SESSION_COOKIE)
    'warpboard_session'
    """
    return Cookies(is_secure=urlsplit(public_url).scheme == "https")
