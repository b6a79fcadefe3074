"""Prevent two message logs from using the same collection on a Qdrant server.

The owner is recorded as an alias of the collection, `COLLECTION.log-LOG`.
"""

from __future__ import annotations

from typing import Final

from qdrant_client import AsyncQdrantClient, models

from nomemory.server.search.semantic.qdrant.reachability import ForeignCollectionError
from nomemory.server.search.semantic.qdrant.responses import await_response

_ALIAS_INFIX: Final = ".log-"


class CollectionOwner:
    """Claims collections for one message log.

    A restored message log keeps its id and its collections, although it has a new epoch.

    Every method can raise the Fault INDEX_UNAVAILABLE if the server does not respond or rejects the request.

    Args:
        log_id: the id of the message log. If the id is empty (in tests), ownership is neither checked nor claimed.
    """

    def __init__(self, client: AsyncQdrantClient, log_id: str) -> None:
        self._client = client
        self._log_id = log_id

    async def check_owner(self, collection: str) -> None:
        """Check that no other message log owns a collection.

        Raises:
            ForeignCollectionError: another message log owns the collection.
        """
        if not self._log_id or not await await_response(self._client.collection_exists(collection)):
            return
        if await self._read_owners(collection) - {self._log_id}:
            raise ForeignCollectionError(collection)

    async def claim_collection(self, collection: str) -> None:
        """Make this message log the owner of a collection.

        Raises:
            ForeignCollectionError: another message log has claimed the collection. If two message logs claim a
                collection at the same time, both claims can fail.
        """
        if not self._log_id or await self._read_owners(collection) == {self._log_id}:
            return
        alias = f"{collection}{_ALIAS_INFIX}{self._log_id}"
        create = models.CreateAlias(collection_name=collection, alias_name=alias)
        await self._update_aliases(models.CreateAliasOperation(create_alias=create))
        if await self._read_owners(collection) - {self._log_id}:
            await self._update_aliases(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
            raise ForeignCollectionError(collection)

    async def _read_owners(self, collection: str) -> set[str]:
        aliases = await await_response(self._client.get_collection_aliases(collection))
        prefix = f"{collection}{_ALIAS_INFIX}"
        return {
            alias.alias_name.removeprefix(prefix) for alias in aliases.aliases if alias.alias_name.startswith(prefix)
        }

    async def _update_aliases(self, operation: models.CreateAliasOperation | models.DeleteAliasOperation) -> None:
        await await_response(self._client.update_collection_aliases(change_aliases_operations=[operation]))
