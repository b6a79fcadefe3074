"""Errors that prevent the server from starting."""

from __future__ import annotations

from importlib.util import find_spec


class StartupError(Exception):
    """An error that prevents the server from starting.

    The message states the problem and the solution, for the operator.
    """


class ExtraMissingError(StartupError):
    """An optional dependency that the configuration requires is not installed."""


def require_extra(extra: str, packages: tuple[str, ...], required_by: str) -> None:
    """Raise an error if the packages of an extra are not installed.

    Args:
        extra: the extra of `nomemory` that installs the packages.
        packages: import names.
        required_by: the setting or command that needs the packages, which the error message names.

    Raises:
        ExtraMissingError: a package is not installed.
    """
    if any(find_spec(package) is None for package in packages):
        raise ExtraMissingError(f"{required_by} requires an optional package: pip install 'nomemory[{extra}]'")
