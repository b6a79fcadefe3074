"""One thing that the contract promises, and what is tried to find out whether it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import grpc

from proofs.conformance.world import World


class LeftOutError(Exception):
    """A check cannot be made against this server. The text says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """A promise in words, and what yields a line for each thing that does not hold."""

    name: str
    tried: Callable[[World], Iterator[str]]

    def faults(self, world: World) -> list[str]:
        """Try it; return what does not hold.

        Raises:
            LeftOutError: see there.
        """
        found: list[str] = []
        try:
            found += self.tried(world)
        except grpc.RpcError as error:
            found.append(f"a call failed: {error.code().name}: {error.details()}")
        return found


def refused(call: Callable[[], object], *codes: grpc.StatusCode) -> Iterator[str]:
    """Say so if a call is not refused with one of these codes."""
    wanted = " or ".join(code.name for code in codes)
    try:
        call()
    except grpc.RpcError as error:
        if error.code() not in codes:
            yield f"refused with {error.code().name} in place of {wanted}: {error.details()}"
    else:
        yield f"not refused; {wanted} is due"
