"""Server settings."""

from nomemory.server.runtime.settings.settings import Settings

__all__ = ["Settings"]
