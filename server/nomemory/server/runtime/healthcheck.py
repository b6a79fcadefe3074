"""`python -m nomemory.server.runtime.healthcheck [HOST:PORT]`: exits 0 if the server there says that it serves.

It reads the server's own settings. Where those say TLS, it trusts the server's own certificate and nothing else, by
whatever name it is for; where clients need certificates, it shows that one, too.
"""

from __future__ import annotations

import sys

import grpc
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nomemory.server.api.identity.tls import TlsFiles, tls_files
from nomemory.server.runtime.settings import Settings

_TIMEOUT_S = 3.0


def is_serving(target: str, tls: TlsFiles | None = None) -> bool:
    """Ask grpc.health.v1."""
    with _channel(target, tls) as channel:
        try:
            reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_S)
        except grpc.RpcError:
            return False
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


def _channel(target: str, tls: TlsFiles | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(target)
    chain = tls.certificate.read_bytes()
    own = (tls.key.read_bytes(), chain) if tls.client_ca else (None, None)
    credentials = grpc.ssl_channel_credentials(chain, *own)
    return grpc.secure_channel(target, credentials, options=[("grpc.ssl_target_name_override", _name_in(chain))])


def _name_in(chain: bytes) -> str:
    certificate = x509.load_pem_x509_certificate(chain)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = names.get_values_for_type(x509.DNSName) or [str(ip) for ip in names.get_values_for_type(x509.IPAddress)]
    return hosts[0].replace("*", "health", 1)


def main() -> int:
    """Ask the server that the settings or the command line name."""
    settings = Settings.from_environment()
    return 0 if is_serving(sys.argv[1] if len(sys.argv) > 1 else settings.server.listen, tls_files(settings)) else 1


if __name__ == "__main__":
    sys.exit(main())
