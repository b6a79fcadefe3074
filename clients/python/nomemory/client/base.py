"""What the two clients share: identity, timeouts and retries."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence

import grpc

from nomemory.client.options import Identity, channel_credentials, with_credential


class BaseClient(ABC):
    """Takes the options that `nomemory.client.Client` describes, and opens the channel."""

    def __init__(  # noqa: PLR0913 - a parameter for each option
        self,
        target: str,
        *,
        api_key: str | None = None,
        token: str | None = None,
        tls: bool = False,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        timeout: float = 30.0,
        import_timeout: float = 3600.0,
        attempts: int = 4,
    ) -> None:
        identity = Identity(api_key=api_key, token=token, tls=tls, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key)
        self._metadata = with_credential(metadata, identity)
        self._timeout = timeout
        self._import_timeout = import_timeout
        self._open(target, credentials or channel_credentials(identity), attempts)

    @abstractmethod
    def _open(self, target: str, credentials: grpc.ChannelCredentials | None, attempts: int) -> None:
        """Open the channel and make the stubs."""
