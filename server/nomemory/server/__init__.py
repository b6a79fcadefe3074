"""The server: the message log, its indexes, and the gRPC services over them."""

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """Read the version when it is asked for: most processes of a server never do, and reading it takes a while."""
    if name != "__version__":
        raise AttributeError(name)
    from importlib.metadata import version  # noqa: PLC0415 - see above

    return version("nomemory")
