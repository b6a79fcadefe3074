"""Is the contract kept? One scenario, played by every client, or at a server that runs already.

`scripts/golden [CLIENT ...]` starts a server for each client, lets the client play the steps of `scenario.json`, and
compares what it got with what the steps expect and with what the other clients got.

`scripts/conformance --target HOST:PORT ...` plays the same steps at a running server, and holds every read against
brute force over what it has written. It needs nothing but the address, and a key where the server wants one: with the
scopes `ingest`, `query` and `recall`, with `act-as` for recalls, with `admin` to list users. Several addresses are
replicas of one server: the calls go to them by turns, so what is written at one is read at another. All users are its
own, with random names, and are erased at the end.

Exits 1 if anything does not hold, and says what.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from proofs.conformance import any_server, every_client
from proofs.conformance.callers import Reached
from proofs.conformance.client_runners import CLIENT_RUNNERS

_TOKEN = "NOMEMORY_API_KEY"  # noqa: S105 - the name of a variable
_CLIENTS = [runner.name for runner in CLIENT_RUNNERS]


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/golden", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("client", nargs="*", help=f"only these clients: {', '.join(_CLIENTS)}")
    parser.add_argument(
        "--target",
        nargs="+",
        help="HOST:PORT of a server that runs, or of each replica; http://HOST:PORT: there over HTTP",
    )
    parser.add_argument("--token", default=os.environ.get(_TOKEN, ""), help=f"a key (default: that of {_TOKEN})")
    parser.add_argument("--tls-ca", type=Path, help="reach it over TLS, trusting these certificates (PEM)")
    parser.add_argument("--only", default="", help="there, only checks whose names have this in them")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of what is said there")
    arguments = parser.parse_args(given)
    if unknown := set(arguments.client) - set(_CLIENTS):
        parser.error(f"there is no client {', '.join(sorted(unknown))}")
    if arguments.client and arguments.target:
        parser.error("clients play at servers of their own: leave out --target")
    if not arguments.tls_ca and any(target.startswith("https:") for target in arguments.target or ()):
        parser.error("https needs --tls-ca, the certificates to trust")
    return arguments


def main(given: Sequence[str] | None = None) -> int:
    """Play; return 0 if everything holds."""
    arguments = arguments_of(given)
    if arguments.target is None:
        return every_client.play(arguments.client or _CLIENTS)
    reached = Reached(arguments.target, arguments.token, arguments.tls_ca)
    return any_server.play(reached, arguments.only, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
