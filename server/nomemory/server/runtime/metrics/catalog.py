"""The catalog of all metrics, from which `docs/metrics.md` is generated."""

from __future__ import annotations

from typing import Final

from nomemory.server.runtime.metrics.family import MetricFamily

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROUNDS: Final = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
BUILD: Final = MetricFamily(
    "nomemory_build_info",
    "Always 1. The labels contain the NoMemory and Python versions.",
    "Several versions behind one address for a long time indicate a stalled rollout.",
    labels=("version", "python"),
)
START: Final = MetricFamily(
    "nomemory_start_time_seconds",
    "Start time of the server, in seconds since the Unix epoch.",
    "An unexpected change indicates a crash. See the server log and the log of the service manager.",
)
CALLS: Final = MetricFamily(
    "nomemory_call_duration_seconds",
    "Duration of calls by method, transport (`grpc` or `http`) and gRPC status code.",
    "Check which method is slow. If only semantic searches are slow, see "
    "`nomemory_embedder_call_duration_seconds`. If all methods are slow, see `nomemory_reads_waiting` and the CPU "
    "usage; with PostgreSQL, additional servers share the load.",
    labels=("method", "transport", "code"),
    bounds=_SECONDS,
)
ERRORS: Final = MetricFamily(
    "nomemory_call_errors_total",
    "Failed calls by error reason. Authentication failures have the reasons `CREDENTIALS_MISSING`, "
    "`CREDENTIALS_INVALID`, `SCOPE_MISSING` and `OTHER_USER`.",
    "`INTERNAL` is a bug: the server log contains the exception class and location for the request id. For "
    "`OVERLOADED`, see `nomemory_reads_rejected_total`. Repeated authentication failures indicate a rotated key or an "
    "attack.",
    labels=("method", "transport", "reason"),
)
HTTP_REJECTED: Final = MetricFamily(
    "nomemory_http_requests_rejected_total",
    "HTTP requests rejected before they reached an API method: unknown paths, forbidden origins, and scrapes "
    "without credentials.",
    "For `ORIGIN_NOT_ALLOWED`, check whether the origin should be listed in NOMEMORY_HTTP_CORS_ORIGINS.",
    labels=("reason",),
)
READS_RUNNING: Final = MetricFamily(
    "nomemory_reads_running",
    "Admitted expensive reads (searches, recalls, counts and exports), without those that wait for a slot.",
    "At most NOMEMORY_EXPENSIVE_READ_CONCURRENCY of them execute. The others wait for the embedder, the vector "
    "index or a chat model.",
)
READS_WAITING: Final = MetricFamily(
    "nomemory_reads_waiting",
    "Expensive reads that wait for a slot.",
    "A persistently high value indicates overload. A low `nomemory_reads_active_users` means that few users cause "
    "the overload. Otherwise, add servers that share a PostgreSQL database.",
)
READS_USERS: Final = MetricFamily(
    "nomemory_reads_active_users",
    "Users with an expensive read in flight.",
    "Few users with many reads indicate that one user overloads the server. Slots are assigned round-robin, so "
    "other users are not blocked.",
)
READS_REJECTED: Final = MetricFamily(
    "nomemory_reads_rejected_total",
    "Reads rejected with `OVERLOADED`.",
    "Possible causes: a client retries without a delay, or NOMEMORY_MAX_INFLIGHT_READS_PER_USER or "
    "NOMEMORY_MAX_INFLIGHT_READS_PER_CALLER is too low.",
)
QUEUE: Final = MetricFamily(
    "nomemory_queue_length",
    "Queued requests: `writes` for the message log, `embedder` for the embedder.",
    "A long `writes` queue indicates slow disk commits. A long `embedder` queue indicates more queries than the "
    "model can embed.",
    labels=("queue",),
)
LOG_READABLE: Final = MetricFamily(
    "nomemory_log_readable",
    "1 if the state of the message log and the indexes could be read for this scrape, else 0. If 0, their metrics "
    "are missing.",
    "The disk or the database file may be damaged. Run `nomemory doctor`.",
)
LOG_MESSAGES: Final = MetricFamily(
    "nomemory_log_messages",
    "Messages in the message log.",
    "Informational.",
)
LOG_USERS: Final = MetricFamily(
    "nomemory_log_users",
    "Users with messages in the message log.",
    "Informational.",
)
LOG_DAMAGED: Final = MetricFamily(
    "nomemory_log_damaged_messages",
    "Messages with a checksum mismatch.",
    "Restore a backup, or run `nomemory doctor --delete-damaged`. Check the disk.",
)
WRITTEN: Final = MetricFamily(
    "nomemory_messages_written_total",
    "Messages in committed writes, by outcome: `created`, `unchanged`, `replaced` or `conflict`.",
    "Many conflicts indicate an import that uses existing ids with different content.",
    labels=("outcome",),
)
DELETED: Final = MetricFamily(
    "nomemory_messages_deleted_total",
    "Deleted messages, by kind of deletion: by id, by filter, or with the user. Expired messages are not counted.",
    "If the value is unexpectedly high, the audit log shows the callers.",
    labels=("by",),
)
INDEX_PENDING: Final = MetricFamily(
    "nomemory_index_pending_messages",
    "Messages that are not indexed yet, by index.",
    "If the value keeps rising, check `nomemory_index_failing`, the throughput of the embedder, and the CPU usage "
    "of the indexer process.",
    labels=("index",),
)
INDEX_LAG: Final = MetricFamily(
    "nomemory_index_lag_seconds",
    "Age of the oldest change that is not indexed, measured from the first scrape that observed it. 0 if the "
    "index is up to date.",
    "For the lexical index, more than a few seconds indicate a fault. The lag of a vector index depends on the "
    "embedder.",
    labels=("index",),
)
INDEX_DEAD_LETTERS: Final = MetricFamily(
    "nomemory_index_dead_letters",
    "Messages excluded from the index because the embedder rejects their text.",
    "`nomemory status --user` lists them for a user. Lexical search still finds them.",
    labels=("index",),
)
INDEX_FAILING: Final = MetricFamily(
    "nomemory_index_failing",
    "1 while indexing fails and is retried, else 0.",
    "`nomemory status` shows the error. The server log contains the stack trace.",
    labels=("index",),
)
EMBEDDER_CALLS: Final = MetricFamily(
    "nomemory_embedder_call_duration_seconds",
    "Duration of embedder calls, including failed calls, by purpose: `query` or `document`. The rate of `_sum` is "
    "the utilization.",
    "If queries become slower, the CPU is saturated or the endpoint is slow.",
    labels=("purpose",),
    bounds=_SECONDS,
)
EMBEDDER_TEXTS: Final = MetricFamily(
    "nomemory_embedder_texts_total",
    "Texts embedded by the model. Cache hits are not counted.",
    "If the value does not increase while messages are pending, the embedder is failing.",
    labels=("purpose",),
)
EMBEDDER_ERRORS: Final = MetricFamily(
    "nomemory_embedder_errors_total",
    "Failed embedder calls.",
    "The model or endpoint is unavailable. Lexical search still works. See the server log and `nomemory status`.",
    labels=("purpose",),
)
RECALLS: Final = MetricFamily(
    "nomemory_recalls_total",
    "Completed recalls by verdict and by the reason for which the search stopped.",
    "The verdict `pending` means that an index lagged behind. An increase of `insufficient` indicates missing "
    "messages or questions about new topics. For the stop reason `deadline`, check the latency of searches and of the "
    "chat model.",
    labels=("verdict", "stop_reason"),
)
RECALL_ITERATIONS: Final = MetricFamily(
    "nomemory_recall_iterations",
    "Search rounds per recall.",
    "An increase indicates a skill or planner whose searches find nothing new.",
    bounds=_ROUNDS,
)
RECALL_DROPPED: Final = MetricFamily(
    "nomemory_recall_rejected_user_arguments_total",
    "User ids removed from the arguments of tool calls. A recall can only access its own user.",
    "A value above 0 means that a skill, a chat model or a prompt injection tried to access another user. The "
    "attempt failed; investigate its origin.",
)
CHAT_MODEL_FAILURES: Final = MetricFamily(
    "nomemory_chat_model_failures_total",
    "Recalls for which the rules answered instead of the chat model, by kind: a [fault](operating.md#faults) of the "
    "model, `DEADLINE` if the client's deadline was too short for the model, or `NO_VALID_QUOTE` if no statement of "
    "the model had a valid quote.",
    "`nomemory doctor` sends a request to the model and suggests a fix. For `INVALID_OUTPUT` and `NO_VALID_QUOTE`, "
    "use a larger model. For `DEADLINE`, increase the timeout of the client.",
    labels=("kind",),
)
CHAT_MODEL_TOKENS: Final = MetricFamily(
    "nomemory_chat_model_tokens_total",
    "Tokens of the chat model in recalls, as reported by its endpoint: `prompt`, `completion`, and `cached`, the part "
    "of `prompt` that the endpoint read from its cache.",
    "If the values stay at 0, the endpoint does not report tokens. If `cached` stays at 0, the endpoint has no prefix "
    "cache or does not report it. NOMEMORY_RECALL_CONTEXT_TOKENS limits the size of prompts.",
    labels=("kind",),
)
PROCESS_MEMORY: Final = MetricFamily(
    "nomemory_process_memory_bytes",
    "Memory of each process, on Linux without file-backed pages. `server` is the main process.",
    "Unlimited growth indicates a memory leak. A worker above NOMEMORY_PROCESS_MEMORY_BYTES is replaced.",
    labels=("process",),
)
PROCESS_CPU: Final = MetricFamily(
    "nomemory_process_cpu_seconds_total",
    "CPU time of each process, including replaced processes as of the latest scrape.",
    "A rate near 1 means that the process is saturated. See [scaling](scaling.md).",
    labels=("process",),
)
PROCESS_RESTARTS: Final = MetricFamily(
    "nomemory_process_restarts_total",
    "Restarts of each process, after a crash or on purpose.",
    "If a process crashes repeatedly, the server log contains the exit status and the stack trace.",
    labels=("process",),
)
FAULTS: Final = MetricFamily(
    "nomemory_active_faults",
    "1 for each active fault, by component and kind. Without faults there are no samples.",
    "`nomemory status` describes the faults. See [faults](operating.md#faults).",
    labels=("component", "kind"),
)
CATALOG: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, MetricFamily))
BY_NAME: Final = {family.name: family for family in CATALOG}
