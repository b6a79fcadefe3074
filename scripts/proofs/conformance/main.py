"""Conformance test of the clients and of running servers.

`scripts/golden [CLIENT ...]` runs the steps of `scenario.json` with each client against a new server, and compares the
results with the expectations of the steps and with the results of the other clients.

`scripts/conformance --target HOST:PORT ...` runs the same steps against a running server and compares the reads with
brute-force results. If the server requires authentication, the key needs the scopes `ingest`, `query` and `recall`,
`act-as` for recalls, and `admin` to list users. If several addresses are given, they must be replicas of one server,
and calls rotate over them. The test creates users with random ids and erases them at the end.

If a check fails, the program prints the differences and exits with 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from proofs.conformance import any_server, every_client
from proofs.conformance.callers import ServerConnection
from proofs.conformance.client_runners import CLIENT_RUNNERS

_TOKEN = "NOMEMORY_API_KEY"  # noqa: S105 - name of an environment variable
_CLIENTS = [runner.name for runner in CLIENT_RUNNERS]


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/golden", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("client", nargs="*", help=f"clients to run (default: all): {', '.join(_CLIENTS)}")
    parser.add_argument(
        "--target",
        nargs="+",
        help="addresses of a running server and its replicas: HOST:PORT, or http(s)://HOST:PORT for HTTP",
    )
    parser.add_argument("--token", default=os.environ.get(_TOKEN, ""), help=f"API key or token (default: {_TOKEN})")
    parser.add_argument("--tls-ca", type=Path, help="connect over TLS with these CA certificates (PEM)")
    parser.add_argument("--only", default="", help="with --target: only checks whose name contains this text")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of the random messages")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.client) - set(_CLIENTS):
        parser.error(f"unknown client: {', '.join(sorted(unknown))}; valid: {', '.join(_CLIENTS)}")
    if arguments.client and arguments.target:
        parser.error("--target cannot be combined with client names: clients are tested on new servers")
    if not arguments.tls_ca and any(target.startswith("https:") for target in arguments.target or ()):
        parser.error("https requires --tls-ca")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the test; return 0 if all checks pass."""
    arguments = parse_arguments(argv)
    if arguments.target is None:
        return every_client.run_clients(arguments.client or _CLIENTS)
    connection = ServerConnection(arguments.target, arguments.token, arguments.tls_ca)
    return any_server.run_checks(connection, arguments.only, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
