"""Run `nomemory` where the environment sets the limits, too, that are fixed for others: for tests and measurements."""

from __future__ import annotations

from unittest.mock import patch

from nomemory.cli.main import main
from nomemory.server.runtime.settings.group import SettingsGroup

if __name__ == "__main__":
    with patch.object(SettingsGroup, "variables", vars(SettingsGroup)["names"]):
        main()
