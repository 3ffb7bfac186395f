"""Opens pages of the platform's web site in a browser."""

import webbrowser
from typing import NamedTuple
from urllib.parse import quote, urlencode

import click

from shared.errors import Refused
from warpboard.context import AppContext
from warpboard.terminal import options
from warpboard.terminal.options import local_command

# For commands whose result has a page on the web site.
WEB = click.option("--web", "is_web", is_flag=True, help="Open its page on the web site.")


class OpenedPage(NamedTuple):
    """The address of a page, and whether a browser shows it."""

    url: str
    is_opened: bool

    @property
    def line(self) -> str:
        """The address; where a browser was opened, it says so."""
        return f"opened {self.url}" if self.is_opened else self.url


def site_path(*parts: str | int, **query: str | int | None) -> str:
    """Return the path of a page, without the parameters that are None.

    >>> site_path("leaderboards", "matmul", "RTX 4090", version=2, as_of=None)
    '/leaderboards/matmul/RTX%204090?version=2'
    """
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    known = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(known)}" if known else path


def open_page(context: AppContext, path: str) -> OpenedPage:
    """Open a page of the web site in a browser.

    None is opened with --json, if the output is not a terminal, or where there is no browser.
    """
    url = f"{context.url.rstrip('/')}{path}"
    can_open = context.screen.is_terminal and not context.as_json
    return OpenedPage(url, can_open and webbrowser.open(url))


def show_page(context: AppContext, path: str) -> int:
    """Open a page, or print its address where no browser can be opened."""
    page = open_page(context, path)
    return context.show(page._asdict(), [page.line])


@local_command(
    "web",
    "web leaderboards/matmul/CPU",
    parameters=(click.argument("page", required=False, default="/"),),
    access=options.URL,
)
def web(context: AppContext, page: str) -> int:
    """Open the platform's web site in a browser.

    PAGE is a path of the site, such as account; default: the front page. Where no browser can be
    opened, or the output is not a terminal, it prints the address.
    """
    if "://" in page or not page.isprintable() or " " in page:
        reason = f"expected a path of the site, such as account, not {page[:60]!r}"
        raise Refused("bad_page", reason, "page")
    return show_page(context, "/" + page.lstrip("/"))
