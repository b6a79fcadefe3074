"""What `--format` takes."""

from __future__ import annotations

import click

from nomemory.cli.importing.formats import FORMATS, named_format
from nomemory.server.extension_point import ExtensionError


class FormatName(click.Choice[str]):
    """The name of a format. The help lists ours; those that other packages add are taken, too."""

    def __init__(self) -> None:
        super().__init__(list(FORMATS))

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that there is such a format."""
        try:
            named_format(str(value))
        except ExtensionError as error:
            self.fail(f"{error}.", param, ctx)
        return str(value)
