"""A small OAuth authorization server: client registration, authorization codes with PKCE, and signed tokens."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

KEY_ID = "k1"
_LIFETIME_S = 300


class AuthorizationServer(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Signs tokens for one user, who consents to every request."""

    def __init__(self, issuer: str, user_id: str) -> None:
        self.issuer = issuer
        self.requested: list[AuthorizationParams] = []
        self._user_id = user_id
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}

    def token(self, user_id: str, audience: str, **changed: Any) -> str:  # noqa: ANN401 - a claim may be any JSON value
        """Sign a token; a claim that is None is omitted."""
        claims = {
            "iss": self.issuer,
            "aud": audience,
            "sub": user_id,
            "exp": datetime.now(UTC) + timedelta(seconds=_LIFETIME_S),
            "scope": "query recall",
        }
        present = {name: value for name, value in (claims | changed).items() if value is not None}
        return jwt.encode(present, self._key, "ES256", {"kid": KEY_ID})

    def routes(self) -> list[Route]:
        """Return the OAuth endpoints and the key set."""
        # AuthSettings keeps the empty path of the issuer; clients compare issuers as strings.
        settings = AuthSettings.model_validate({"issuer_url": self.issuer, "resource_server_url": None})
        registration = ClientRegistrationOptions(enabled=True)
        oauth = create_auth_routes(self, settings.issuer_url, client_registration_options=registration)
        return [*oauth, Route("/jwks", self._key_set)]

    async def _key_set(self, _request: Request) -> JSONResponse:
        public = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return JSONResponse({"keys": [{**public, "kid": KEY_ID, "alg": "ES256"}]})

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """Return a registered client."""
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client."""
        assert client_info.client_id
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Return the redirect with a code."""
        assert client.client_id
        self.requested.append(params)
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=params.scopes or [],
            expires_at=time.time() + _LIFETIME_S,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=self._user_id,
        )
        self._codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self,
        client: OAuthClientInformationFull,  # noqa: ARG002 - the protocol's signature
        authorization_code: str,
    ) -> AuthorizationCode | None:
        """Return a code that was issued."""
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self,
        client: OAuthClientInformationFull,  # noqa: ARG002 - the protocol's signature
        authorization_code: AuthorizationCode,
    ) -> OAuthToken:
        """Return a token for the requested resource and scopes."""
        del self._codes[authorization_code.code]
        scope = " ".join(authorization_code.scopes)
        token = self.token(self._user_id, authorization_code.resource or "", scope=scope)
        return OAuthToken(access_token=token, expires_in=_LIFETIME_S, scope=scope)

    async def load_refresh_token(
        self,
        client: OAuthClientInformationFull,  # noqa: ARG002 - the protocol's signature
        refresh_token: str,  # noqa: ARG002 - as above
    ) -> RefreshToken | None:
        """Return None: this server issues no refresh tokens."""
        return None

    async def exchange_refresh_token(
        self,
        client: OAuthClientInformationFull,  # noqa: ARG002 - the protocol's signature
        refresh_token: RefreshToken,  # noqa: ARG002 - as above
        scopes: list[str],  # noqa: ARG002 - as above
    ) -> OAuthToken:
        """Reject the token: this server issues no refresh tokens."""
        raise TokenError("invalid_grant")

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """Do nothing: tokens are valid until they expire."""

    async def load_access_token(self, token: str) -> AccessToken | None:  # noqa: ARG002 - the protocol's signature
        """Return None: the resource server verifies tokens with the key set."""
        return None


@contextmanager
def authorization_server(user_id: str) -> Iterator[AuthorizationServer]:
    """Run an authorization server on an ephemeral port."""
    config = uvicorn.Config(Starlette(), host="127.0.0.1", port=0, log_level="warning", lifespan="off")
    listener = config.bind_socket()
    issuer = f"http://127.0.0.1:{listener.getsockname()[1]}"
    provider = AuthorizationServer(issuer, user_id)
    config.app = Starlette(routes=provider.routes())
    server = uvicorn.Server(config)
    # The socket already listens in the kernel after `bind_socket`, so no request is refused while the thread starts.
    listener.listen()
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield provider
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
