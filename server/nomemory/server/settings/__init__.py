"""Every limit, default and timeout of a server."""

from nomemory.server.settings.settings import Settings

__all__ = ["Settings"]
