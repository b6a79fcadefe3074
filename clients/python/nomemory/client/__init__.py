"""The thin client of NoMemory: plain Python values in, the contract's replies out."""

from importlib.metadata import version
from typing import Final

from nomemory.client.aio import AsyncClient
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client

__all__ = ["AsyncClient", "Client", "NoMemoryError", "__version__"]

__version__: Final = version("nomemory-client")
