"""Parts whose calls are spans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sized
from typing import Any, Final, TypeVar, cast

from nomemory.spans.span import Kind, Span, Value, current

_Part = TypeVar("_Part")
Call = Callable[..., Awaitable[Any]]
"""A method of a part. Any: each has its own types, which stay as they are."""
Note = Callable[[Span, tuple[Any, ...], Any], None]
"""Says more of a call on its span: `(span, arguments, answer)`."""

ROWS: Final = "db.response.returned_rows"


class _Traced:
    """A part, some methods of which are spans. Everything else is as it was.

    Args:
        within: the part.
        replaced: what stands in the place of methods.
    """

    def __init__(self, within: object, replaced: Mapping[str, Call]) -> None:
        self._within = within
        for name, call in replaced.items():
            setattr(self, name, call)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the part has it
        return getattr(self._within, name)


def traced_engine(within: _Part, name: str, system: str, methods: Iterable[str]) -> _Part:
    """Return an engine each of whose calls is a span: `log page`, `words search`.

    Args:
        within: the engine.
        name: what it is for.
        system: what it is.
        methods: which of its calls are spans.
    """
    replaced: dict[str, Call] = {}
    for method in methods:
        said: dict[str, Value] = {"db.system.name": system, "db.operation.name": method}
        replaced[method] = in_span(getattr(within, method), f"{name} {method}", said, _note_rows, Kind.CLIENT)
    return cast("_Part", _Traced(within, replaced))


def traced_part(within: _Part, replaced: Mapping[str, Call]) -> _Part:
    """Return a part with other calls in the place of some of its own."""
    return cast("_Part", _Traced(within, replaced))


def in_span(
    call: Call, name: str, said: Mapping[str, Value], note: Note | None = None, kind: Kind = Kind.INTERNAL
) -> Call:
    """Return a call that is a span of that name with these attributes, where anything is recorded."""

    async def recorded(around: Span, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as `Call`
        with around.child(name, kind) as span:
            span.attributes |= said
            answer = await call(*arguments, **named)
            if note is not None:
                note(span, arguments, answer)
            return answer

    def made(*arguments: Any, **named: Any) -> Awaitable[Any]:  # noqa: ANN401 - as `Call`
        around = current()
        if around is None or not around.is_recorded:
            return call(*arguments, **named)
        return recorded(around, *arguments, **named)

    return made


def _note_rows(span: Span, _arguments: tuple[Any, ...], answer: Any) -> None:  # noqa: ANN401 - as `Call`
    if isinstance(answer, Sized) and not isinstance(answer, tuple):  # whose fields are no rows
        span.attributes[ROWS] = len(answer)
