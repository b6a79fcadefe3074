"""`nomemory top`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from nomemory.cli.target import Target, address_options
from nomemory.cli.terminal import stdout_console
from nomemory.cli.top.frame import frame
from nomemory.cli.top.interval import between
from nomemory.cli.top.scrape import Scrape
from nomemory.cli.top.source import NoScrapeError, Source

_METRICS: Final = "127.0.0.1:9464"

Frame = Callable[[int | None], RenderableType]
"""Lays out what is to be seen, in so many lines."""


@click.command("top")
@click.option("--once", is_flag=True, help="Show one interval, as text, and end.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2, max=3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@click.option(
    "--token",
    metavar="TOKEN",
    envvar="NOMEMORY_METRICS_TOKEN",
    show_envvar=True,
    help="The token for scrapes. Without it the key is shown.",
)
@address_options(
    _METRICS,
    "NOMEMORY_METRICS_TARGET",
    "Where the server serves `/metrics`: the address of its --metrics, or of its --http.",
)
def top(*, once: bool, interval: float, token: str | None, target: Target) -> None:
    """Watch a running server: calls and how long they take, errors, queues, indexes, the embedder, recalls, processes.

    The figures are those of `/metrics`, so start the server with --metrics or --http. Rates are those of the last
    interval. Ctrl-C ends it. In a pipe each interval is written as text below the one before.
    """
    watch = Watch(_source(target, token), target.address)
    console = stdout_console()
    try:
        if once:
            _show_once(watch, interval, console)
        else:
            _show(watch, interval, console)
    except NoScrapeError as error:
        raise click.ClickException(str(error)) from None


def _source(target: Target, token: str | None) -> Source:
    try:
        return Source(target, token)
    except OSError as error:
        raise click.UsageError(f"The files for TLS cannot be used: {error}") from None


class Watch:
    """Looks at a server again and again.

    Args:
        source: where the scrapes come from.
        address: what the server is called.
    """

    def __init__(self, source: Source, address: str) -> None:
        self._source = source
        self._address = address
        self._before: Scrape | None = None
        self._at = 0.0

    def look(self) -> Frame:
        """Return what happened since the last look.

        Raises:
            NoScrapeError: the server does not tell.
        """
        now, at, wall_s = self._source.scrape(), time.monotonic(), time.time()
        found = between(self._before, now, at - self._at, wall_s)
        self._before, self._at = now, at
        return lambda lines: frame(found, self._address, wall_s, lines)


def _show_once(watch: Watch, interval: float, console: Console) -> None:
    watch.look()
    time.sleep(interval)
    console.print(watch.look()(None))


def _show(watch: Watch, interval: float, console: Console) -> None:
    """Show frames until Ctrl-C. A server that does not answer at first is an error, later it is waited for."""
    with suppress(KeyboardInterrupt):
        if console.is_terminal:
            _show_live(watch.look(), _looks(watch, interval), console)
        else:
            console.print(watch.look()(None))
            for seen in _looks(watch, interval):
                console.print("", seen(None), sep="\n")


def _show_live(first: Frame, more: Iterator[Frame], console: Console) -> None:
    with Live(first(console.height), console=console, screen=True, auto_refresh=False) as live:
        for seen in more:
            live.update(seen(console.height), refresh=True)


def _looks(watch: Watch, interval: float) -> Iterator[Frame]:
    while True:
        time.sleep(interval)
        try:
            yield watch.look()
        except NoScrapeError as error:
            yield _away(str(error))


def _away(why: str) -> Frame:
    return lambda _: Group(Text(why, style="bold red"), Text("It is asked again.", style="dim"))
