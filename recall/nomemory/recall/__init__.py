"""The recall agent: it answers a question about one user with statements that quote what was said."""

from importlib.metadata import version
from typing import Final

__all__ = ["__version__"]

__version__: Final = version("nomemory")
