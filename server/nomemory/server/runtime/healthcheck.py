"""The health check command.

`python -m nomemory.server.runtime.healthcheck [HOST:PORT]` exits with 0 if the server is SERVING.

The command reads the server's settings. With TLS, the command trusts only the server's own certificate and ignores the
host name. If the server requires client certificates, the command presents the server's certificate.
"""

from __future__ import annotations

import sys

import grpc
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nomemory.server.api.identity.tls import TlsFiles, get_tls_files
from nomemory.server.runtime.settings import Settings

_TIMEOUT_S = 3.0


def is_serving(target: str, tls: TlsFiles | None = None) -> bool:
    """Return whether the health service at an address reports SERVING."""
    with _open_channel(target, tls) as channel:
        try:
            reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=_TIMEOUT_S)
        except grpc.RpcError:
            return False
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


def _open_channel(target: str, tls: TlsFiles | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(target)
    chain = tls.certificate.read_bytes()
    client_certificate = (tls.key.read_bytes(), chain) if tls.client_ca else (None, None)
    credentials = grpc.ssl_channel_credentials(chain, *client_certificate)
    return grpc.secure_channel(
        target, credentials, options=[("grpc.ssl_target_name_override", _extract_host_name(chain))]
    )


def _extract_host_name(chain: bytes) -> str:
    certificate = x509.load_pem_x509_certificate(chain)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = names.get_values_for_type(x509.DNSName) or [str(ip) for ip in names.get_values_for_type(x509.IPAddress)]
    return hosts[0].replace("*", "health", 1)


def main() -> int:
    """Check the address on the command line, or the address in the settings, and return the exit status."""
    settings = Settings.from_environment()
    return 0 if is_serving(sys.argv[1] if len(sys.argv) > 1 else settings.server.listen, get_tls_files(settings)) else 1


if __name__ == "__main__":
    sys.exit(main())
