"""Every limit, default and timeout, each with one home.

An environment variable `NOMEMORY_<NAME>` overrides a default; `docs/settings.md` is generated from this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """The configuration of one server process. Immutable."""

    model_config = SettingsConfigDict(env_prefix="NOMEMORY_", frozen=True, extra="ignore")

    # Where
    data: Path = Field(Path("./data"), description="Directory of the log, the indexes and the server's key.")
    listen: str = Field("127.0.0.1:7700", description="HOST:PORT to serve on; port 0 picks a free one.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level to log.")

    # Who may call (docs/authentication.md)
    api_keys: Path | None = Field(None, description="File of API keys; `nomemory keys` writes it.")
    jwt_secret: SecretStr | None = Field(None, description="Secret that signs users' tokens, at least 32 bytes.")
    jwt_jwks: str | None = Field(None, description="Instead: a JSON Web Key Set, as a file or an https URL.")
    jwt_algorithms: str = Field(
        "",
        description="Algorithms that sign tokens. Empty: HS256 for a secret, RS256 ES256 for a key set.",
    )
    jwt_issuer: str = Field("", description="`iss` of tokens; needed where there are tokens.")
    jwt_audience: str = Field("", description="`aud` of tokens; needed where there are tokens.")
    jwt_user_claim: str = Field("sub", description="Claim of a token that names its user.")
    jwt_default_scopes: str = Field(
        "", description="Scopes (`query recall`) of tokens that have neither `scope` nor `scp`. Empty: none."
    )
    jwt_leeway_s: float = Field(30.0, ge=0, le=300, description="How far the clocks of issuer and server may differ.")
    jwks_refresh_s: float = Field(300.0, gt=0, description="After this a key set from a URL is fetched again.")
    jwks_stale_s: float = Field(3600.0, gt=0, description="After this one that cannot be fetched is good for nothing.")
    jwks_pause_s: float = Field(10.0, ge=0, description="Least time between two fetches of it.")
    jwks_timeout_s: float = Field(5.0, gt=0, description="How long a fetch may take.")
    tls_cert: Path | None = Field(None, description="The server's certificate chain (PEM). Unset: no TLS.")
    tls_key: Path | None = Field(None, description="Its private key (PEM, without a passphrase).")
    tls_client_ca: Path | None = Field(
        None, description="Authority (PEM) of client certificates. Set: every client must have one."
    )
    tls_identities: Path | None = Field(
        None, description="File that says which client certificate is which caller. Unset: they identify nobody."
    )
    insecure_plaintext: bool = Field(
        default=False, description="Allow credentials without TLS beyond loopback: something in front ends TLS."
    )
    reflection: bool = Field(
        default=True, description="Whether the server describes its contract to anybody who can reach it."
    )

    # Several processes (docs/operating.md)
    workers: int = Field(1, ge=1, le=64, description="Processes that answer calls, over one data directory.")
    workers_start_s: float = Field(
        10.0, gt=0, description="How long the start waits for all of them; those that are late join later."
    )
    workers_connection_s: float = Field(
        300.0,
        ge=1,
        le=86_400,
        description="Where there are several: age at which a connection is ended, without hurting calls, so that "
        "clients spread over them again.",
    )

    # The contract's limits
    page_size_default: int = Field(50, ge=1, description="Page size where a request sets none.")
    page_size_max: int = Field(500, ge=1, description="Largest page size.")
    top_k_default: int = Field(20, ge=1, description="`top_k` where a request sets none.")
    top_k_max: int = Field(200, ge=1, description="Largest `top_k`.")
    neighbors_before_default: int = Field(20, ge=0, description="`before` where a request sets none.")
    neighbors_after_default: int = Field(0, ge=0, description="`after` where a request sets none.")
    neighbors_max: int = Field(200, ge=1, description="Largest `before` and largest `after`.")
    batch_get_max: int = Field(500, ge=1, description="Most ids in one BatchGetMessages.")
    write_batch_max: int = Field(1000, ge=1, description="Most messages in one write batch.")
    delete_batch_max: int = Field(1000, ge=1, description="Most ids in one DeleteMessages.")
    rejections_max: int = Field(1000, ge=0, description="Most rejections that an import lists.")
    content_max_bytes: int = Field(262_144, ge=1, description="Longest content, in bytes of UTF-8.")
    id_max_chars: int = Field(128, ge=1, description="Longest user, message, conversation and request id.")
    name_max_chars: int = Field(128, ge=1, description="Longest speaker's name.")
    metadata_max_entries: int = Field(32, ge=0, description="Most metadata entries of a message.")
    metadata_key_max_chars: int = Field(64, ge=1, description="Longest metadata key.")
    metadata_value_max_chars: int = Field(1024, ge=0, description="Longest metadata value.")
    query_max_chars: int = Field(2000, ge=1, description="Longest query text.")
    query_max_terms: int = Field(128, ge=1, description="Most terms and phrases in a query.")
    query_max_depth: int = Field(16, ge=1, description="Deepest parentheses in a query.")
    snippet_default_chars: int = Field(120, ge=1, description="Snippet length where a request sets none.")
    snippet_max_chars: int = Field(1000, ge=1, description="Longest snippet.")
    highlight_max_chars: int = Field(20_000, ge=1, description="How far into a content highlights are looked for.")
    highlight_spans_max: int = Field(200, ge=0, description="Most spans in the highlight of a message.")
    request_max_bytes: int = Field(16 * 1024 * 1024, ge=1024, description="Largest request message.")
    reply_max_bytes: int = Field(3_000_000, ge=1024, description="Size at which a reply ends early.")

    # Time
    deadline_default_s: float = Field(30.0, gt=0, description="Deadline where a client sets none.")
    deadline_import_s: float = Field(3600.0, gt=0, description="The same, for ImportMessages.")
    drain_s: float = Field(5.0, ge=0, description="How long calls in flight may finish after SIGTERM.")
    cursor_lifetime_s: float = Field(86_400.0, gt=0, description="How long a cursor can be used.")
    wait_poll_s: float = Field(0.005, gt=0, description="How often a waiting read looks whether its index is there.")

    # The log
    write_queue_max: int = Field(256, ge=1, description="Most batches that wait for the log's writer.")
    write_queue_max_bytes: int = Field(64_000_000, ge=1, description="Most bytes of messages in those batches.")

    # The lexical index
    lexical_batch_max: int = Field(4000, ge=1, description="Most changes in one commit of the lexical index.")
    lexical_batch_bytes: int = Field(4_000_000, ge=1, description="Size of messages that is enough for one commit.")
    lexical_heap_bytes: int = Field(64_000_000, ge=15_000_000, description="Memory of the lexical index's writer.")

    # The vector index
    qdrant_url: str | None = Field(None, description="A Qdrant server (gRPC or HTTP URL). Unset: embedded Qdrant Edge.")
    qdrant_api_key: SecretStr | None = Field(None, description="API key of the Qdrant server.")
    vector_flush_s: float = Field(5.0, gt=0, description="How often the embedded vector index is flushed to disk.")
    vector_timeout_s: float = Field(30.0, gt=0, description="How long the vector engine may take to answer.")

    # The embedder
    embedder: str = Field(
        "auto",
        description="What embeds texts: `local`, `openai`, `none`, or the name of an embedder that another package "
        "adds. `auto`: `local` where its package is installed, else `none`.",
    )
    embedding_model: str = Field("", description="Model name for `openai`; `local` has its own.")
    embedding_dimension: int = Field(
        0,
        ge=0,
        le=8192,
        description="Dimension of the vectors; needed for `openai`. 0: the local model's own, 384 for `none`.",
    )
    openai_base_url: str | None = Field(
        None,
        validation_alias="OPENAI_BASE_URL",
        description="OpenAI-compatible endpoint. Unset: OpenAI's own.",
    )
    openai_api_key: SecretStr | None = Field(
        None,
        validation_alias="OPENAI_API_KEY",
        description="Key of that endpoint; any text where it wants none.",
    )
    embedding_timeout_s: float = Field(30.0, gt=0, description="How long the embedder may take for one call.")
    embedding_batch_max: int = Field(64, ge=1, description="Most texts in one call of `openai`.")
    embedding_part_chars: int = Field(
        800, ge=50, description="Length of the parts in which a long message is embedded."
    )
    embedding_parts_max: int = Field(16, ge=1, description="Most parts of a message; what is beyond is not embedded.")
    embedding_cache_max: int = Field(2048, ge=0, description="Query vectors that are kept for reuse.")
    embedding_cache: Path | None = Field(
        None,
        description="File that keeps every vector for later runs, by digests of the texts. It only grows, and a "
        "deletion leaves it as it is. Unset: none.",
    )
    hot_user_s: float = Field(60.0, ge=0, description="How long after a semantic query a user's backlog goes first.")

    # The hybrid search (docs/quality.md)
    hybrid_candidates_max: int = Field(
        256,
        ge=10,
        le=2000,
        description="Most messages that words propose for the ranking, that meaning does, and of many messages both.",
    )
    hybrid_timeline_max: int = Field(
        1000, ge=0, le=10_000, description="A user with no more messages than this is ranked over all of them."
    )
    hybrid_without: str = Field(
        "",
        description="Steps of the ranking that are left out, parted by spaces, to measure what they are worth.",
    )

    # Recall
    recall_skills: str = Field(
        "", description="Folders of recall skills, parted by `:`; searched before the shipped ones."
    )
    recall_skill: str = Field("nomemory-recall-default", description="Skill where a request names none.")
    recall_planner: str = Field(
        "auto",
        description="Who plans a recall: `rules`, `llm`, or the name of a planner that another package adds. "
        "`auto`: `llm` where NOMEMORY_RECALL_MODEL is set, else `rules`.",
    )
    recall_model: str = Field("", description="Chat model for `llm`, behind OPENAI_BASE_URL.")
    recall_model_timeout_s: float = Field(20.0, gt=0, description="How long the chat model may take for one answer.")
    recall_iterations: int = Field(3, ge=1, description="Most rounds of searching in a recall.")
    recall_tool_calls: int = Field(12, ge=1, description="Most calls of tools in a recall.")
    recall_evidence_messages: int = Field(6, ge=1, le=50, description="Most messages in a recall's evidence.")
    recall_evidence_chars: int = Field(4000, ge=100, description="Longest content of an evidence message; more is cut.")
    recall_deadline_s: float = Field(10.0, gt=0, description="How long the searching of a recall may take.")
    recall_result_items: int = Field(50, ge=1, le=200, description="Most messages that one call of a tool may bring.")
    recall_result_chars: int = Field(12_000, ge=500, description="Most characters that one call may show to a planner.")
    recall_neighbors_before: int = Field(8, ge=0, le=100, description="Messages taken before an anchor.")
    recall_neighbors_after: int = Field(0, ge=0, le=100, description="Messages taken after an anchor.")
    recall_anchors: int = Field(3, ge=0, le=10, description="Anchors whose neighbours are taken.")
    recall_sufficiency: float = Field(
        0.5,
        ge=0,
        le=1,
        description="How likely the log must be to answer a question that names one of several speakers.",
    )
    recall_sufficiency_waiver: float = Field(
        0.9,
        ge=0,
        le=1,
        description="How likely it must be, elsewhere, for a verdict whose quotes cover little of the question.",
    )
    recall_query_target: str = Field("", description="QueryService that `serve --recall-only` reads from, HOST:PORT.")
    recall_query_tls: bool = Field(
        default=False, description="Reach that QueryService over TLS; needed beyond this machine."
    )
    recall_query_tls_ca: Path | None = Field(
        None, description="Certificates (PEM) to trust there. Unset: those that gRPC trusts."
    )
    recall_query_key: SecretStr | None = Field(None, description="API key of this process at that QueryService.")
