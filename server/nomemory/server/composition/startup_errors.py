"""Why a server cannot start."""

from __future__ import annotations

from typing import Final

from nomemory.server.composition.recall_host import RecallSettingsError
from nomemory.server.data_directory import DataDirectoryBusyError, DataDirectoryUnusableError
from nomemory.server.embedding.factory import EmbedderSettingsError
from nomemory.server.identity.credentials import IdentitySettingsError
from nomemory.server.listen_address import ListenAddressError
from nomemory.server.log.protocol import LogUnusableError, LogVersionError
from nomemory.server.maintenance.loss import LogLostError
from nomemory.server.server_key import KeyFileError
from nomemory.server.tracing.provider import TracingSettingsError
from nomemory.server.vector.qdrant.reachability import ForeignCollectionError

CANNOT_START: Final = (
    DataDirectoryBusyError,
    DataDirectoryUnusableError,
    EmbedderSettingsError,
    ForeignCollectionError,
    IdentitySettingsError,
    KeyFileError,
    ListenAddressError,
    LogLostError,
    LogUnusableError,
    LogVersionError,
    RecallSettingsError,
    TracingSettingsError,
)
"""What `serve` raises if the server cannot start; their words are meant for the operator."""
