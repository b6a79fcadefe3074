"""Write the sample to a server, and prepare a data directory with the sample and its vectors."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from file_lock import locked_file

from nomemory.client import Client
from nomemory.client.messages import chat_message
from nomemory.importing.sample import get_sample_path
from nomemory.server.runtime.settings import Settings
from running_server import started

USERS = ("lin", "sam", "mei")
EMBEDDING_TIMEOUT_S = 110.0
"""Time limit until all messages of the sample are embedded, also on a busy machine."""


def write_sample(target: str) -> None:
    """Write the sample, and wait until it is indexed lexically and, if the server has an embedder, semantically."""
    records = map(json.loads, get_sample_path().read_text("utf-8").splitlines())
    messages = [chat_message(**{**record, "ts": datetime.fromisoformat(record["ts"])}) for record in records]
    with Client(target, timeout=EMBEDDING_TIMEOUT_S) as client:
        token = client.write(messages).write_token
        has_embedder = bool(client.server_info().embedding_model)
        for user_id in USERS:
            client.lexical_search(user_id, "x", at_least=token)
            if has_embedder:
                client.semantic_search(user_id, "x", at_least=token)


def prepare_embedded_sample(shared: Path) -> Path:
    """Return a data directory with the sample and its vectors.

    The first process of a test run creates it, because the embedder needs ten seconds for the sample.
    """
    shared.mkdir(parents=True, exist_ok=True)
    data = shared / "embedded-sample"
    with locked_file(shared / "embedded-sample.lock"):
        if not data.exists():
            unfinished = shared / "unfinished-sample"
            with started(Settings.from_environment(data=unfinished, listen="127.0.0.1:0")) as server:
                write_sample(server.target)
            unfinished.rename(data)
    return data
