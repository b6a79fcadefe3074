"""Errors that prevent the server from starting."""

from __future__ import annotations

from importlib.util import find_spec


class StartupError(Exception):
    """The server cannot start. The message tells the operator why and what to do."""


class ExtraMissingError(StartupError):
    """A required optional dependency is not installed."""


def require_extra(extra: str, packages: tuple[str, ...], required_by: str) -> None:
    """Raise if an optional dependency is not installed.

    Args:
        extra: the extra of `nomemory` that installs the packages.
        packages: import names.
        required_by: the setting or command that needs the packages, for the error message.

    Raises:
        ExtraMissingError: a package is not installed.
    """
    if any(find_spec(package) is None for package in packages):
        raise ExtraMissingError(f"{required_by} requires an optional package: pip install 'nomemory[{extra}]'")
