"""The call that is being answered, for handlers and for a host's interceptors.

gRPC runs each call in a task of its own, so no call sees another one's.
"""

from __future__ import annotations

from contextvars import ContextVar

from nomemory.server.rpc.call import Call

_CURRENT: ContextVar[Call | None] = ContextVar("nomemory_call", default=None)


def current_call() -> Call | None:
    """Return the call that is being answered. None until it is admitted, and None in health and reflection."""
    return _CURRENT.get()


def set_current_call(call: Call) -> None:
    """Note that a call was admitted. Only `NoMemoryInterceptor` does that."""
    _CURRENT.set(call)


def forget_current_call() -> None:
    """Forget the call whose task has started this one: over HTTP a connection's requests follow each other."""
    _CURRENT.set(None)
