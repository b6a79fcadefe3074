"""Whose a collection on a Qdrant server is: an alias of it names the log that it is filled from.

An alias goes with its collection, and is there in every version and every layout of Qdrant.
"""

from __future__ import annotations

from typing import Final

from qdrant_client import AsyncQdrantClient, models

from nomemory.server.vector.foreign_collection import ForeignCollectionError
from nomemory.server.vector.qdrant_answers import answered

_MARK: Final = ".log-"


class QdrantOwner:
    """Speaks for one log. A log's epoch does not matter: a log that was restored is the same one.

    A collection that nobody owns is of a version that named no owner, or was not finished.

    Args:
        client: the connection.
        log_id: the log; empty: none, which may use any collection and owns none.

    Raises (any method): Fault INDEX_UNAVAILABLE, the server does not answer, or refuses.
    """

    def __init__(self, client: AsyncQdrantClient, log_id: str) -> None:
        self._client = client
        self._log_id = log_id

    async def refuse_other(self, collection: str) -> None:
        """Look whether a collection is another log's.

        Raises:
            ForeignCollectionError: it is.
        """
        if not self._log_id or not await answered(self._client.collection_exists(collection)):
            return
        if await self._owners(collection) - {self._log_id}:
            raise ForeignCollectionError(collection)

    async def own(self, collection: str) -> None:
        """Note that a collection is this log's.

        Raises:
            ForeignCollectionError: another log has taken it meanwhile. Of two that come at once both may be refused.
        """
        if not self._log_id or await self._owners(collection) == {self._log_id}:
            return
        alias = f"{collection}{_MARK}{self._log_id}"
        ours = models.CreateAlias(collection_name=collection, alias_name=alias)
        await self._change(models.CreateAliasOperation(create_alias=ours))
        if await self._owners(collection) - {self._log_id}:
            await self._change(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
            raise ForeignCollectionError(collection)

    async def _owners(self, collection: str) -> set[str]:
        found = await answered(self._client.get_collection_aliases(collection))
        begin = f"{collection}{_MARK}"
        return {one.alias_name.removeprefix(begin) for one in found.aliases if one.alias_name.startswith(begin)}

    async def _change(self, operation: models.CreateAliasOperation | models.DeleteAliasOperation) -> None:
        await answered(self._client.update_collection_aliases(change_aliases_operations=[operation]))
