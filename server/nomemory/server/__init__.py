"""The server: the message log, its indexes, and the gRPC services over them."""

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """Load `__version__` on first access: reading the package metadata is slow, and worker processes do not need it."""
    if name != "__version__":
        raise AttributeError(name)
    from importlib.metadata import version  # noqa: PLC0415 - see above

    return version("nomemory")
