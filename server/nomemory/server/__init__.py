"""The server: the message log, its indexes, and the gRPC services over them."""

from importlib.metadata import version
from typing import Final

__all__ = ["__version__"]

__version__: Final = version("nomemory")
