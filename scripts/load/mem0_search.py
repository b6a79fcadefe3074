"""Measure searches of mem0 as a library: python mem0_search.py INPUT DIRECTORY, in an environment with mem0 and NumPy.

INPUT has the texts and queries as JSON. The embedder returns prepared vectors, so embedding costs nothing. Prints the
measurements as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ |= {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "unused"}
_USER = "u"


class FreeEmbedder:
    """Embedder that looks up prepared vectors.

    Args:
        vectors: the vector of each text.
    """

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self._vectors = vectors

    def embed(self, text: str, _action: str = "") -> list[float]:
        """Return the vector of a text."""
        return self._vectors[text]


def main(source: Path, directory: Path) -> None:
    """Store the texts, search with each query, and print the CPU time and the latency of a search."""
    os.environ["MEM0_DIR"] = str(directory)
    from mem0 import Memory  # noqa: PLC0415 - reads the variables above

    workload: dict[str, Any] = json.loads(source.read_text("utf-8"))
    store = {"path": str(directory / "qdrant"), "embedding_model_dims": workload["dimension"], "on_disk": True}
    history = str(directory / "history.db")
    memory = Memory.from_config({"vector_store": {"provider": "qdrant", "config": store}, "history_db_path": history})
    memory.embedding_model = FreeEmbedder(workload["vectors"])
    for text in workload["texts"]:
        memory.add([{"role": "user", "content": text}], user_id=_USER, infer=False)
    cpu_ms, latencies_ms, hits = [], [], 0
    for query in workload["queries"]:
        cpu_s, began_s = time.process_time(), time.perf_counter()
        results = memory.search(query, filters={"user_id": _USER}, top_k=workload["top_k"], threshold=0.0)
        cpu_ms.append(1000 * (time.process_time() - cpu_s))
        latencies_ms.append(1000 * (time.perf_counter() - began_s))
        hits += len(results["results"])
    print(json.dumps({"cpu_ms": cpu_ms, "latencies_ms": latencies_ms, "hits": hits}))


if __name__ == "__main__":
    if sys.argv[1:2] in ([], ["--help"], ["-h"]):
        print(f"usage: mem0_search.py INPUT DIRECTORY\n\n{__doc__}")
        raise SystemExit
    main(Path(sys.argv[1]), Path(sys.argv[2]))
