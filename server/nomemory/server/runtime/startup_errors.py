"""Why a server cannot start."""

from __future__ import annotations

from importlib.util import find_spec


class StartupError(Exception):
    """What `serve` raises if the server cannot start; the words are meant for the operator."""


class ExtraMissingError(StartupError):
    """An extra of the package is not installed; the text names the command that installs it."""


def require_extra(extra: str, packages: tuple[str, ...], required_by: str) -> None:
    """Refuse what needs packages that are not installed, before any of it is begun.

    Args:
        extra: what installs them.
        packages: as they are imported.
        required_by: the setting or the command that needs them, for people.

    Raises:
        ExtraMissingError: one of them is not installed.
    """
    if any(find_spec(package) is None for package in packages):
        raise ExtraMissingError(f"{required_by} needs a package that is not installed: pip install 'nomemory[{extra}]'")
