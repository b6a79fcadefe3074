"""One frame of `nomemory top`: the figures of an interval, as many lines as the terminal has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nomemory.cli.figures import counted
from nomemory.cli.printable import one_line
from nomemory.cli.top import units
from nomemory.cli.top.interval import Interval
from nomemory.cli.top.scrape import Scrape
from nomemory.server.metrics import catalog

_COUNT: Final = f"{catalog.CALLS.name}_count"
_INDEXES: Final = {"words": "Words", "meaning": "Meaning", "meaning_coming": "To come"}
_HEADINGS: Final = 4  # of two tables, and a blank line above each
_PROCESSES_MIN: Final = 3


def frame(interval: Interval, address: str, wall_s: float, lines: int | None = None) -> RenderableType:
    """Lay out an interval that ended at a time, in seconds since the Unix epoch.

    Args:
        interval: what happened.
        address: the server's.
        wall_s: that time.
        lines: how many there may be; None: as many as it takes.
    """
    figures = Table.grid(padding=(0, 2))
    figures.add_column(style="bold", no_wrap=True)
    figures.add_column(no_wrap=lines is not None, overflow="ellipsis")
    for label, value in _figures(interval):
        figures.add_row(label, value)
    faults = list(_faults(interval.now))
    methods, processes = _methods(interval), _processes(interval)
    if lines is not None:
        room = lines - 2 - len(faults) - figures.row_count - _HEADINGS
        below = min(len(processes), max(_PROCESSES_MIN, room // 2))
        methods, processes = _cut(methods, room - below), _cut(processes, below)
    tables = [
        _table(("method", "calls/s", "median", "99 %", "errors/s"), methods),
        _table(("process", "memory", "CPU", "restarts"), processes),
    ]
    return Group(_title(interval, address, wall_s), *faults, "", figures, "", tables[0], "", tables[1])


def _title(interval: Interval, address: str, wall_s: float) -> Text:
    now = interval.now
    [version] = {one["version"] for one in now.labels(catalog.BUILD.name)} or {"?"}
    up = units.age(max(0.0, wall_s - now.sum(catalog.START.name)))
    since = "since it started" if interval.before is None else f"of the last {interval.seconds:.1f} s"
    return Text.assemble(
        (f"NoMemory {one_line(version)}", "bold"), f" at {address}  up {up}  ", (f"figures {since}", "dim")
    )


def _faults(now: Scrape) -> Iterator[Text]:
    for fault in now.labels(catalog.FAULT.name):
        yield Text(f"Fault: {one_line(fault['part'])} {one_line(fault['kind'])}", style="bold red")
    if unheard := now.sum(catalog.PROCESSES_UNHEARD.name):
        yield Text(f"Processes that do not say what they count: {unheard:,.0f}", style="yellow")


def _figures(interval: Interval) -> Iterator[tuple[str, Text]]:
    now = interval.now
    yield "Calls", _calls(interval)
    if now.has(catalog.READS_RUNNING.name):
        yield "Reads", _reads(interval)
    if now.has(catalog.QUEUE.name):
        yield "Waiting", _queues(now)
    if now.has(catalog.LOG_MESSAGES.name):
        yield "Log", _log(interval)
    elif now.has(catalog.LOG_READABLE.name):
        yield "Log", Text("cannot be read", style="bold red")
    for index, label in _INDEXES.items():
        if index in now.by(catalog.INDEX_PENDING.name, "index"):
            yield label, _index(now, index)
    if now.has(catalog.EMBEDDER_TEXTS.name):
        yield "Embedder", _embedder(interval)
    yield "Recalls", _recalls(interval)


def _calls(interval: Interval) -> Text:
    calls, errors = interval.rate(_COUNT), interval.rate(catalog.ERRORS.name)
    text = Text(f"{units.rate(calls)}/s, errors {units.rate(errors)}/s")
    if errors:
        reasons = interval.rates(catalog.ERRORS.name, "reason")
        most = max(reasons, key=lambda reason: (reasons[reason], reason))
        text.append(f" ({units.share(errors, calls)}), most of them {one_line(most)}", style="yellow")
    return text


def _reads(interval: Interval) -> Text:
    now, refused = interval.now, interval.rate(catalog.READS_REFUSED.name)
    running, waiting = now.sum(catalog.READS_RUNNING.name), now.sum(catalog.READS_WAITING.name)
    users = counted(int(now.sum(catalog.READS_USERS.name)), "user")
    text = Text(f"{running:,.0f} at work, {waiting:,.0f} waiting, of {users}")
    return text.append(f", refused {units.rate(refused)}/s", style="yellow" if refused else "")


def _queues(now: Scrape) -> Text:
    waiting = now.by(catalog.QUEUE.name, "queue")
    told = (f"{one_line(queue)} {number:,.0f}" for queue, number in sorted(waiting.items(), reverse=True))
    return Text(", ".join(told))


def _log(interval: Interval) -> Text:
    now = interval.now
    messages = counted(int(now.sum(catalog.LOG_MESSAGES.name)), "message")
    users = counted(int(now.sum(catalog.LOG_USERS.name)), "user")
    written, deleted = interval.rate(catalog.WRITTEN.name), interval.rate(catalog.DELETED.name)
    text = Text(f"{messages} of {users}, written {units.rate(written)}/s, deleted {units.rate(deleted)}/s")
    if damaged := now.sum(catalog.LOG_DAMAGED.name):
        text.append(f", {damaged:,.0f} damaged", style="bold red")
    return text


def _index(now: Scrape, index: str) -> Text:
    pending = now.sum(catalog.INDEX_PENDING.name, index=index)
    if pending:
        lag = units.age(now.sum(catalog.INDEX_LAG.name, index=index))
        text = Text(f"{counted(int(pending), 'message')} to go, behind for {lag}", style="yellow")
    else:
        text = Text("up to date", style="green")
    if parked := now.sum(catalog.INDEX_PARKED.name, index=index):
        text.append(f", {parked:,.0f} can never be indexed", style="red")
    if now.sum(catalog.INDEX_FAILING.name, index=index):
        text.append(", failing", style="bold red")
    return text


def _embedder(interval: Interval) -> Text:
    parts = []
    for purpose, noun in (("query", "queries"), ("document", "texts")):
        took = interval.mean(catalog.EMBEDDER_CALLS.name, purpose=purpose)
        parts.append(f"{noun} {units.rate(interval.rate(catalog.EMBEDDER_TEXTS.name, purpose=purpose))}/s")
        if took is not None:
            parts[-1] += f" in calls of {units.duration(took)}"
    found = interval.rates(catalog.EMBEDDER_CACHE.name, "result")
    if any(found.values()):
        parts.append(f"{units.share(found.get('hit', 0.0), sum(found.values()))} known")
    errors = interval.rate(catalog.EMBEDDER_ERRORS.name)
    return Text(", ".join(parts)).append(f", errors {units.rate(errors)}/s", style="yellow" if errors else "")


def _recalls(interval: Interval) -> Text:
    name = catalog.RECALLS.name
    rates = interval.rates(name, "verdict") if interval.now.has(name) else {}
    whole = sum(rates.values())
    parts = [f"{units.rate(whole)}/s"]
    parts += [f"{one_line(verdict)} {units.share(part, whole)}" for verdict, part in sorted(rates.items()) if part]
    if (rounds := interval.mean(catalog.RECALL_ROUNDS.name)) is not None:
        parts.append(f"{rounds:.1f} rounds each")
    text = Text(", ".join(parts))
    if dropped := interval.now.sum(catalog.RECALL_DROPPED.name):
        text.append(f", identities dropped: {dropped:,.0f}", style="yellow")
    return text


Row = tuple[str | Text, ...]


def _methods(interval: Interval) -> list[Row]:
    """Return the methods that were ever called, those that are called most first."""
    rates = interval.rates(_COUNT, "method")
    errors = interval.rates(catalog.ERRORS.name, "method")
    return [
        (
            one_line(method),
            units.rate(rates[method]),
            *(units.duration(interval.quantile(share, catalog.CALLS.name, method=method)) for share in (0.5, 0.99)),
            units.rate(errors.get(method, 0.0)),
        )
        for method in sorted(rates, key=lambda method: (-rates[method], method))
    ]


def _processes(interval: Interval) -> list[Row]:
    """Return the processes that run, the largest first."""
    sizes = interval.now.by(catalog.PROCESS_MEMORY.name, "process")
    used = interval.rates(catalog.PROCESS_CPU.name, "process")
    restarts = interval.now.by(catalog.PROCESS_RESTARTS.name, "process")
    return [
        (
            one_line(process),
            units.memory(sizes[process]),
            f"{used.get(process, 0.0):.0%}",
            Text(f"{restarts.get(process, 0.0):,.0f}", style="yellow" if restarts.get(process) else ""),
        )
        for process in sorted(sizes, key=lambda process: (-sizes[process], process))
    ]


def _cut(rows: list[Row], room: int) -> list[Row]:
    if len(rows) <= room:
        return rows
    kept = max(0, room - 1)
    return [*rows[:kept], (Text(f"… {len(rows) - kept} more", style="dim"),)]


def _table(headings: tuple[str, ...], rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(headings[0], min_width=24, no_wrap=True)
    for heading in headings[1:]:
        table.add_column(heading, justify="right", min_width=8, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
