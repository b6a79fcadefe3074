"""Compare the CPU time and the latency of a search with those of the mem0 library: `scripts/bench_mem0`."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from load.corpus import DIMENSION, draw_unit_vector
from load.server_process import ServerProcess
from load.usage import measure_run_time_ns
from load.words import draw_words, join_words

from nomemory.client import Client, chat_message

_USER: Final = "u"
_TOP_K: Final = 20
_SEED: Final = 11
_QUERY_WORDS: Final = 4
_LIBRARY: Final = Path(__file__).with_name("mem0_search.py")


@dataclass(frozen=True, slots=True)
class SearchCost:
    """CPU time and latency of each search of one system, in milliseconds.

    Attributes:
        hits: the total number of results of all searches.
    """

    cpu_ms: Sequence[float]
    latencies_ms: Sequence[float]
    hits: int

    def format_row(self, name: str) -> str:
        """Return a Markdown table row with the median CPU time and latency."""
        cpu, latency = (statistics.median(values) for values in (self.cpu_ms, self.latencies_ms))
        return f"| {name} | {cpu:.1f} | {latency:.1f} |"


def create_workload(messages: int, queries: int) -> dict[str, Any]:
    """Return random texts and queries with Zipf-distributed words, and a random unit vector for each of them."""
    random = np.random.default_rng(_SEED)
    drawn = draw_words(random, messages + queries)
    texts = list({join_words(words, is_chinese): None for words, is_chinese in drawn[:messages]})
    query_texts = [join_words(words[:_QUERY_WORDS], is_chinese) for words, is_chinese in drawn[messages:]]
    vectors = {text: [float(value) for value in draw_unit_vector(random)] for text in [*texts, *query_texts]}
    return {"texts": texts, "queries": query_texts, "vectors": vectors, "dimension": DIMENSION, "top_k": _TOP_K}


def measure_library(python: Path, workload: dict[str, Any], folder: Path) -> SearchCost:
    """Measure mem0 in a separate process, with the interpreter of an environment that has mem0 installed."""
    source = folder / "input.json"
    source.write_text(json.dumps(workload), encoding="utf-8")
    command = [str(python), str(_LIBRARY), str(source), str(folder)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - trusted command
    return SearchCost(**json.loads(printed.splitlines()[-1]))


def measure_server(workload: dict[str, Any], folder: Path) -> SearchCost:
    """Measure HybridSearch of a server; the CPU time includes this client."""
    server = ServerProcess(folder / "data")
    server.start()
    try:
        with Client(server.target) as client:
            for text in workload["texts"]:
                client.write(
                    [chat_message(user_id=_USER, role="user", content=text, embedding=workload["vectors"][text])]
                )
            server.wait_for_indexes()
            return _measure_searches(server, client, workload)
    finally:
        server.stop()


def _measure_searches(server: ServerProcess, client: Client, workload: dict[str, Any]) -> SearchCost:
    cpu_ms, latencies_ms, hits = [], [], 0
    for query in workload["queries"]:
        cpu_s, began_s = time.process_time() + measure_run_time_ns(server.list_pids()) / 1e9, time.perf_counter()
        reply = client.hybrid_search(_USER, query, embedding=workload["vectors"][query], top_k=_TOP_K)
        latencies_ms.append(1000 * (time.perf_counter() - began_s))
        cpu_ms.append(1000 * (time.process_time() + measure_run_time_ns(server.list_pids()) / 1e9 - cpu_s))
        hits += len(reply.items)
    return SearchCost(cpu_ms, latencies_ms, hits)


def main() -> int:
    """Measure both systems, print the comparison, and return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/bench_mem0", description=__doc__)
    parser.add_argument("--mem0-python", type=Path, required=True, help="Python of an environment with mem0")
    parser.add_argument("--messages", type=int, default=2_000, help="number of messages of the user; default: 2,000")
    parser.add_argument("--queries", type=int, default=100, help="number of searches; default: 100")
    arguments = parser.parse_args()
    workload = create_workload(arguments.messages, arguments.queries)
    with tempfile.TemporaryDirectory() as folder:
        library = measure_library(arguments.mem0_python, workload, Path(folder))
        ours = measure_server(workload, Path(folder))
    print("| one search | CPU ms | latency ms |\n|---|---|---|")
    print(library.format_row("mem0, `search` of the library"))
    print(ours.format_row("NoMemory, HybridSearch over gRPC"))
    print(f"{library.hits} and {ours.hits} results", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
