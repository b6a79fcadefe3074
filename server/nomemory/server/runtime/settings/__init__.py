"""Every limit, default and timeout of a server."""

from nomemory.server.runtime.settings.settings import Settings

__all__ = ["Settings"]
