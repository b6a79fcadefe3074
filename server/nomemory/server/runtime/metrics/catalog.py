"""Every metric of the server. `docs/metrics.md` is generated from here."""

from __future__ import annotations

from typing import Final

from nomemory.server.runtime.metrics.family import Family

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROUNDS: Final = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
BUILD: Final = Family(
    "nomemory_build_info",
    "Always 1; the labels say which version of NoMemory runs, on which Python.",
    "Two versions behind one address for long mean that a roll-out has stopped half way.",
    labels=("version", "python"),
)
START: Final = Family(
    "nomemory_start_time_seconds",
    "When the server started, in seconds since the Unix epoch.",
    "A change that nobody made is a crash: the log says why, and so does what started the server again.",
)
CALLS: Final = Family(
    "nomemory_call_duration_seconds",
    "How long calls took, from their arrival to their end, by method of the contract, way in (`grpc`, `http`) and "
    "gRPC code. `_count` is how many there were.",
    "Look at which method it is. Slow searches by meaning: `nomemory_embedder_call_duration_seconds`. All slow at "
    "once: `nomemory_reads_waiting` and the CPU of the server; more servers over PostgreSQL share the reads.",
    labels=("method", "transport", "code"),
    bounds=_SECONDS,
)
ERRORS: Final = Family(
    "nomemory_call_errors_total",
    "Calls that ended with an error, by the contract's reason. Refused credentials are `CREDENTIALS_MISSING`, "
    "`CREDENTIALS_INVALID`, `SCOPE_MISSING` and `OTHER_USER`.",
    "`INTERNAL` is a bug: the log has its kind and place under the call's request id. `OVERLOADED`: see "
    "`nomemory_reads_rejected_total`. Refused credentials that keep coming: a key that was rotated, or somebody who "
    "tries.",
    labels=("method", "transport", "reason"),
)
HTTP_REJECTED: Final = Family(
    "nomemory_http_requests_rejected_total",
    "Requests over HTTP that were refused before they were calls of a method: paths that do not exist, pages of other "
    "origins, scrapes without a credential.",
    "`ORIGIN_NOT_ALLOWED`: a page that may call is missing in NOMEMORY_HTTP_CORS_ORIGINS, or must not call.",
    labels=("reason",),
)
READS_RUNNING: Final = Family(
    "nomemory_reads_running",
    "Expensive reads (searches, recalls, counts, exports) in flight that do not wait for a slot.",
    "NOMEMORY_EXPENSIVE_READ_CONCURRENCY of them work; the others wait for the embedder, the vector index, a model.",
)
READS_WAITING: Final = Family(
    "nomemory_reads_waiting",
    "Expensive reads that wait for a slot.",
    "For long: the server has more to do than it can. Find the caller who floods it (`nomemory_reads_active_users` is small "
    "then), or add servers over PostgreSQL.",
)
READS_USERS: Final = Family(
    "nomemory_reads_active_users",
    "Users that have an expensive read in flight.",
    "Few users and many reads: one user floods the server. The others take turns with that user.",
)
READS_REJECTED: Final = Family(
    "nomemory_reads_rejected_total",
    "Reads that were refused with `OVERLOADED`.",
    "A client that retries at once, or a limit that is too low: NOMEMORY_MAX_INFLIGHT_READS_PER_USER, "
    "NOMEMORY_MAX_INFLIGHT_READS_PER_CALLER.",
)
QUEUE: Final = Family(
    "nomemory_queue_length",
    "Requests that wait: `writes` for the log's writer, `embedder` for the embedder.",
    "`writes`: the disk is slow to confirm commits. `embedder`: queries come faster than the model embeds them.",
    labels=("queue",),
)
LOG_READABLE: Final = Family(
    "nomemory_log_readable",
    "1 where the state of the log and the indexes could be read for this scrape; else 0, and what tells of them is "
    "missing.",
    "The disk, or the file, is damaged: `nomemory doctor`.",
)
LOG_MESSAGES: Final = Family(
    "nomemory_log_messages",
    "Messages in the log.",
    "For information: no value is bad.",
)
LOG_USERS: Final = Family(
    "nomemory_log_users",
    "Users who have messages in the log.",
    "For information: no value is bad.",
)
LOG_DAMAGED: Final = Family(
    "nomemory_log_damaged_messages",
    "Messages whose checksums do not hold.",
    "Restore a backup, or `nomemory doctor --delete-damaged`. Look at the disk.",
)
WRITTEN: Final = Family(
    "nomemory_messages_written_total",
    "Messages of writes that the log has committed, by what became of each: `created`, `unchanged`, `replaced`, "
    "`conflict`.",
    "Many `conflict`: an import brings other content under known ids.",
    labels=("outcome",),
)
DELETED: Final = Family(
    "nomemory_messages_deleted_total",
    "Messages that were deleted: by their ids, by a filter, or with their user. Those that expire are not counted.",
    "More than you expect: the audit says who did it.",
    labels=("by",),
)
INDEX_PENDING: Final = Family(
    "nomemory_index_pending_messages",
    "Messages that an index does not have yet: `words`, `meaning`, and after a change of the model `next_vector`.",
    "Rising for long: look at `nomemory_index_failing`, at the embedder's rate, and at the CPU of the index's process.",
    labels=("index",),
)
INDEX_LAG: Final = Family(
    "nomemory_index_lag_seconds",
    "How long the oldest change has waited that an index does not have, since the first scrape that saw it. 0: the "
    "index has everything.",
    "As for the messages. `words` beyond a few seconds is a fault; `meaning` takes as long as the embedder takes.",
    labels=("index",),
)
INDEX_DEAD_LETTERS: Final = Family(
    "nomemory_index_dead_letters",
    "Messages that were set aside because their texts cannot be embedded.",
    "`nomemory status --user` names them for a user. They are found by words, not by meaning.",
    labels=("index",),
)
INDEX_FAILING: Final = Family(
    "nomemory_index_failing",
    "1 while the work of an index fails and is tried again.",
    "`nomemory status` says with what; the log says where.",
    labels=("index",),
)
EMBEDDER_CALLS: Final = Family(
    "nomemory_embedder_call_duration_seconds",
    "How long calls of the model took, those that failed too: of a `query`, or of `document` texts. `_sum` is how busy "
    "it was.",
    "Queries slower than before: the machine's CPU is taken, or the endpoint is slow.",
    labels=("purpose",),
    bounds=_SECONDS,
)
EMBEDDER_TEXTS: Final = Family(
    "nomemory_embedder_texts_total",
    "Texts that the model has embedded. What a cache had is not counted.",
    "0 while messages are pending: the embedder does not work.",
    labels=("purpose",),
)
EMBEDDER_ERRORS: Final = Family(
    "nomemory_embedder_errors_total",
    "Calls of the model that failed.",
    "The endpoint or the model is away; searches by words go on. The log and `nomemory status` say more.",
    labels=("purpose",),
)
RECALLS: Final = Family(
    "nomemory_recalls_total",
    "Recalls that came to an answer, by their verdict and by why they stopped searching.",
    "`pending`: the index was behind. More `insufficient` than before: the index lacks messages, or people ask other "
    "things. `deadline`: see the latency of searches and of the chat model.",
    labels=("verdict", "stop"),
)
RECALL_ITERATIONS: Final = Family(
    "nomemory_recall_iterations",
    "Rounds of searching that a recall took.",
    "More than before: a skill or a planner that searches without gain.",
    bounds=_ROUNDS,
)
RECALL_DROPPED: Final = Family(
    "nomemory_recall_rejected_user_arguments_total",
    "Arguments that named a user in calls of tools, and were taken out: a recall is bound to its user.",
    "More than 0: a skill, a chat model or somebody's message tries to read another user. It cannot; find out who.",
)
PROCESS_MEMORY: Final = Family(
    "nomemory_process_memory_bytes",
    "Memory of each process, on Linux without pages of files: `server` itself, the indexers, the embedders, the vector "
    "engine.",
    "Rising without end is a leak; a process beyond its bound is replaced (NOMEMORY_PROCESS_MEMORY_BYTES).",
    labels=("process",),
)
PROCESS_CPU: Final = Family(
    "nomemory_process_cpu_seconds_total",
    "CPU time of each process. Those that were replaced are counted on, as far as a scrape had seen them.",
    "A process at 1 second a second is at its limit: see [past one machine](scaling.md).",
    labels=("process",),
)
PROCESS_RESTARTS: Final = Family(
    "nomemory_process_restarts_total",
    "How often a process was started again, whether it had died or was replaced on purpose.",
    "A process that dies again and again: the log says with which exit code, and where it crashed.",
    labels=("process",),
)
FAULT: Final = Family(
    "nomemory_active_faults",
    "1 for each fault that stands now: a part of the server, and what is wrong with it. No fault, no line.",
    "`nomemory status` has it in words. See [faults](operating.md#faults).",
    labels=("part", "kind"),
)
CATALOG: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Family))
BY_NAME: Final = {family.name: family for family in CATALOG}
