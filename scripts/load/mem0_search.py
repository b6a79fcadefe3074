"""Measure searches with the mem0 library: `python mem0_search.py INPUT DIRECTORY`.

The environment must have mem0 and NumPy installed. INPUT is a JSON file with the texts, the queries and their vectors.
The script uses these vectors instead of a model, so the measurement excludes embedding. The figures are printed as
JSON.
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


class LookupEmbedder:
    """An embedder for mem0 that looks up vectors instead of computing them."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self._vectors = vectors

    def embed(self, text: str, _action: str = "") -> list[float]:
        """Return the prepared vector of a text."""
        return self._vectors[text]


def main(source: Path, directory: Path) -> None:
    """Store the texts, run each query, and print the CPU time and the latency of each search."""
    os.environ["MEM0_DIR"] = str(directory)
    from mem0 import Memory  # noqa: PLC0415 - the import reads the environment variables set above

    workload: dict[str, Any] = json.loads(source.read_text("utf-8"))
    store = {"path": str(directory / "qdrant"), "embedding_model_dims": workload["dimension"], "on_disk": True}
    history = str(directory / "history.db")
    memory = Memory.from_config({"vector_store": {"provider": "qdrant", "config": store}, "history_db_path": history})
    memory.embedding_model = LookupEmbedder(workload["vectors"])
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
