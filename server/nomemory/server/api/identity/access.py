"""Access control.

The pipeline authenticates and authorizes the caller before it reads the request. The pipeline then restricts the
request to the users that the caller may access.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message as ProtoMessage

from nomemory.server.api.identity.authenticator import AuthContext, Authenticator
from nomemory.server.api.identity.caller import Caller, Metadata, Scope
from nomemory.server.api.identity.user_binding import BoundUser, bind_user, reject_other_user_id
from nomemory.server.api.identity.user_fields import add_namespace, find_user_ids
from nomemory.server.faults import Fault, Reason


@dataclass(frozen=True, slots=True)
class RequiredScopes:
    """The permissions that a method requires.

    Attributes:
        any_of: the scopes of which the caller must have at least one.
        binds_user: whether each call is bound to one user, who is determined from the caller and the metadata.
        is_public: whether every authenticated caller may call the method, which then must not read any user's data.
    """

    any_of: frozenset[Scope]
    binds_user: bool = False
    is_public: bool = False

    @property
    def is_write(self) -> bool:
        """Whether the method changes the message log."""
        return Scope.INGEST in self.any_of


PUBLIC: Final = RequiredScopes(frozenset(), is_public=True)
"""The requirement for methods that every authenticated caller may call."""


class AccessControl:
    """Authenticates callers and authorizes their calls."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def authenticate(self, metadata: Metadata, auth_context: AuthContext) -> Caller:
        """Authenticate the caller.

        Raises:
            Fault: CREDENTIALS_MISSING or CREDENTIALS_INVALID.
        """
        return await self._authenticator.authenticate(metadata, auth_context)

    def authorize(self, caller: Caller, required: RequiredScopes, metadata: Metadata) -> BoundUser | None:
        """Authorize a call and return the user that it is bound to, or None if the method binds no user.

        Raises:
            Fault: SCOPE_MISSING, OTHER_USER or USER_NOT_BOUND.
        """
        if not (required.is_public or required.any_of & caller.scopes):
            scopes = " or ".join(f"`{scope}`" for scope in sorted(required.any_of))
            raise Fault(Reason.ERROR_REASON_SCOPE_MISSING, f"this method requires the scope {scopes}")
        if required.binds_user:
            return bind_user(caller, metadata)
        if caller.user_id is not None:
            reject_other_user_id(caller, metadata)
        return None


def restrict_to_caller(
    request: ProtoMessage, caller: Caller, bound: BoundUser | None, required: RequiredScopes
) -> None:
    """Restrict a request to the users that its caller may access, and add the caller's namespace to its user ids.

    Raises:
        Fault: OTHER_USER, the caller has a user token, and the request contains another user's id or no user id.
    """
    if caller.user_id is not None and not required.is_public:
        _reject_other_users(caller.user_id, request, is_bound=bound is not None)
    if caller.namespace is not None:
        add_namespace(request, caller.namespace)


def _reject_other_users(user_id: str, request: ProtoMessage, *, is_bound: bool) -> None:
    requested = list(find_user_ids(request))
    if any(requested_id != user_id for requested_id in requested) or not (requested or is_bound):
        raise Fault(Reason.ERROR_REASON_OTHER_USER, "this token is bound to another user")
