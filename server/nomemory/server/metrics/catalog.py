"""Every metric of the server. `docs/metrics.md` is generated from here.

What a metric is: its name, its kind, its labels, and what people need to know of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """How a metric is read."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with all of its labels.

    Attributes:
        name: as Prometheus knows it, without `_bucket`, `_sum` and `_count`.
        kind: how it is read.
        labels: their names. Values come from the contract, or are names of the server's own parts: nothing that a
            caller sends is ever one.
        meaning: a sentence.
        advice: what to do when it is bad.
        bounds: of a histogram, the upper bounds of its buckets, in rising order.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    advice: str
    bounds: tuple[float, ...] = ()


_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROUNDS: Final = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
BUILD: Final = Family(
    "nomemory_build_info",
    Kind.GAUGE,
    ("version", "python"),
    "Always 1; the labels say which version of NoMemory runs, on which Python.",
    "Two versions behind one address for long mean that a roll-out has stopped half way.",
)
START: Final = Family(
    "nomemory_start_time_seconds",
    Kind.GAUGE,
    (),
    "When the server started, in seconds since the Unix epoch.",
    "A change that nobody made is a crash: the log says why, and so does what started the server again.",
)
CALLS: Final = Family(
    "nomemory_call_duration_seconds",
    Kind.HISTOGRAM,
    ("method", "via", "code"),
    "How long calls took, from their arrival to their end, by method of the contract, way in (`grpc`, `http`) and "
    "gRPC code. `_count` is how many there were.",
    "Look at which method it is. Slow searches by meaning: `nomemory_embedder_call_duration_seconds`. All slow at "
    "once: `nomemory_reads_waiting` and the CPU of the processes; more `--workers` help readers.",
    _SECONDS,
)
ERRORS: Final = Family(
    "nomemory_call_errors_total",
    Kind.COUNTER,
    ("method", "via", "reason"),
    "Calls that ended with an error, by the contract's reason. Refused credentials are `CREDENTIALS_MISSING`, "
    "`CREDENTIALS_INVALID`, `SCOPE_MISSING` and `OTHER_USER`.",
    "`INTERNAL` is a bug: the log has its kind and place under the call's request id. `OVERLOADED`: see "
    "`nomemory_reads_refused_total`. Refused credentials that keep coming: a key that was rotated, or somebody who "
    "tries.",
)
HTTP_REFUSED: Final = Family(
    "nomemory_http_refused_total",
    Kind.COUNTER,
    ("reason",),
    "Requests over HTTP that were refused before they were calls of a method: paths that do not exist, pages of other "
    "origins, scrapes without a credential.",
    "`ORIGIN_REFUSED`: a page that may call is missing in NOMEMORY_HTTP_CORS_ORIGINS, or must not call.",
)
READS_RUNNING: Final = Family(
    "nomemory_reads_running",
    Kind.GAUGE,
    ("process",),
    "Expensive reads (searches, recalls, counts, exports) that a process works on.",
    "At NOMEMORY_READS_RUNNING_MAX others wait: see the next one.",
)
READS_WAITING: Final = Family(
    "nomemory_reads_waiting",
    Kind.GAUGE,
    ("process",),
    "Expensive reads that wait for their turn in a process.",
    "For long: the server has more to do than it can. Add `--workers`, or find the caller who floods it "
    "(`nomemory_reads_users` is small then).",
)
READS_USERS: Final = Family(
    "nomemory_reads_users",
    Kind.GAUGE,
    ("process",),
    "Of how many users these reads are.",
    "Few users and many reads: one of them is in a flood, and the others are not hurt by it.",
)
READS_REFUSED: Final = Family(
    "nomemory_reads_refused_total",
    Kind.COUNTER,
    ("process",),
    "Reads that a process has refused with `OVERLOADED`.",
    "A client that tries again at once, or too little room: NOMEMORY_READS_USER_MAX, NOMEMORY_READS_CALLER_MAX.",
)
QUEUE: Final = Family(
    "nomemory_queue_waiting",
    Kind.GAUGE,
    ("process", "queue"),
    "What waits in a process: `writes` for the log's writer, `embedder` for the embedder.",
    "`writes`: the disk is slow to confirm commits. `embedder`: queries come faster than the model embeds them.",
)
LOG_READABLE: Final = Family(
    "nomemory_log_readable",
    Kind.GAUGE,
    (),
    "1 where the state of the log and the indexes could be read for this scrape; else 0, and what tells of them is "
    "missing.",
    "The disk, or the file, is damaged: `nomemory doctor`.",
)
LOG_MESSAGES: Final = Family(
    "nomemory_log_messages", Kind.GAUGE, (), "Messages in the log.", "For information: no value is bad."
)
LOG_USERS: Final = Family(
    "nomemory_log_users", Kind.GAUGE, (), "Users who have messages in the log.", "For information: no value is bad."
)
LOG_SEQUENCE: Final = Family(
    "nomemory_log_sequence",
    Kind.GAUGE,
    (),
    "The sequence of the log's latest change. Its rate is the rate of changes.",
    "For information: no value is bad.",
)
LOG_DAMAGED: Final = Family(
    "nomemory_log_damaged_messages",
    Kind.GAUGE,
    (),
    "Messages whose checksums do not hold.",
    "Restore a backup, or `nomemory doctor --delete-damaged`. Look at the disk.",
)
WRITTEN: Final = Family(
    "nomemory_messages_written_total",
    Kind.COUNTER,
    ("outcome",),
    "Messages of writes that the log has committed, by what became of each: `created`, `unchanged`, `replaced`, "
    "`conflict`.",
    "Many `conflict`: an import brings other content under known ids.",
)
DELETED: Final = Family(
    "nomemory_messages_deleted_total",
    Kind.COUNTER,
    ("by",),
    "Messages that were deleted: by their ids, by a filter, or with their user. Those that expire are not counted.",
    "More than you expect: the audit says who did it.",
)
INDEX_PENDING: Final = Family(
    "nomemory_index_pending_messages",
    Kind.GAUGE,
    ("index",),
    "Messages that an index does not have yet: `words`, `meaning`, and after a change of the model `meaning_coming`.",
    "Rising for long: look at `nomemory_index_failing`, at the embedder's rate, and at the CPU of the index's process.",
)
INDEX_LAG: Final = Family(
    "nomemory_index_lag_seconds",
    Kind.GAUGE,
    ("index",),
    "How long the oldest change has waited that an index does not have, to about a second; since the start for what "
    "waited before. 0: the index has everything.",
    "As for the messages. `words` beyond a few seconds is a fault; `meaning` takes as long as the embedder takes.",
)
INDEX_PARKED: Final = Family(
    "nomemory_index_parked_messages",
    Kind.GAUGE,
    ("index",),
    "Messages that were set aside because their texts cannot be embedded.",
    "`nomemory status --user` names them for a user. They are found by words, not by meaning.",
)
INDEX_FAILING: Final = Family(
    "nomemory_index_failing",
    Kind.GAUGE,
    ("index",),
    "1 while the work of an index fails and is tried again.",
    "`nomemory status` says with what; the log says where.",
)
EMBEDDER_CALLS: Final = Family(
    "nomemory_embedder_call_duration_seconds",
    Kind.HISTOGRAM,
    ("purpose",),
    "How long calls of the model took, those that failed too: of a `query`, or of `document` texts. `_sum` is how busy "
    "it was.",
    "Queries slower than before: the machine's CPU is taken, or the endpoint is slow.",
    _SECONDS,
)
EMBEDDER_TEXTS: Final = Family(
    "nomemory_embedder_texts_total",
    Kind.COUNTER,
    ("purpose",),
    "Texts that the model has embedded. What a cache had is not counted.",
    "0 while messages are pending: the embedder does not work.",
)
EMBEDDER_ERRORS: Final = Family(
    "nomemory_embedder_errors_total",
    Kind.COUNTER,
    ("purpose",),
    "Calls of the model that failed.",
    "The endpoint or the model is away; searches by words go on. The log and `nomemory status` say more.",
)
EMBEDDER_CACHE: Final = Family(
    "nomemory_embedder_cache_total",
    Kind.COUNTER,
    ("cache", "result"),
    "Look-ups of vectors that were made before: in `memory` (queries) or in the `file` of NOMEMORY_EMBEDDING_CACHE; "
    "`hit` or `miss`.",
    "Few hits in memory are no fault: people ask new things.",
)
RECALLS: Final = Family(
    "nomemory_recalls_total",
    Kind.COUNTER,
    ("verdict", "stop"),
    "Recalls that came to an answer, by their verdict and by why they stopped searching.",
    "`pending`: the index was behind. More `insufficient` than before: the index lacks messages, or people ask other "
    "things. `deadline`: see the latency of searches and of the chat model.",
)
RECALL_ROUNDS: Final = Family(
    "nomemory_recall_rounds",
    Kind.HISTOGRAM,
    (),
    "Rounds of searching that a recall took.",
    "More than before: a skill or a planner that searches without gain.",
    _ROUNDS,
)
RECALL_SEARCHES: Final = Family(
    "nomemory_recall_tool_calls_total", Kind.COUNTER, (), "Calls of tools in recalls.", "As for the rounds."
)
RECALL_DROPPED: Final = Family(
    "nomemory_recall_dropped_identities_total",
    Kind.COUNTER,
    (),
    "Arguments that named a user in calls of tools, and were taken out: a recall is bound to its user.",
    "More than 0: a skill, a chat model or somebody's message tries to read another user. It cannot; find out who.",
)
SPANS_SENT: Final = Family(
    "nomemory_spans_sent_total",
    Kind.COUNTER,
    (),
    "Spans of traces that the collector has taken.",
    "0 with traces on: nothing is called, or NOMEMORY_TRACE_RATIO is 0.",
)
SPANS_DROPPED: Final = Family(
    "nomemory_spans_dropped_total",
    Kind.COUNTER,
    ("reason",),
    "Spans of traces that were lost: `queue_full`, there was no room for them, or `not_delivered`, the collector did "
    "not take them. No call waits for a span, and none fails for one.",
    "`not_delivered`: the collector is away or refuses; the log says how. `queue_full`: it is slow; record fewer "
    "traces, NOMEMORY_TRACE_RATIO.",
)
PROCESS_MEMORY: Final = Family(
    "nomemory_process_memory_bytes",
    Kind.GAUGE,
    ("process", "role"),
    "Memory of each process of the server, on Linux without pages of files.",
    "Rising without end is a leak; a process beyond its bound is replaced (NOMEMORY_PROCESS_MEMORY_BYTES).",
)
PROCESS_CPU: Final = Family(
    "nomemory_process_cpu_seconds_total",
    Kind.COUNTER,
    ("process", "role"),
    "CPU time of each process. Those that were replaced are counted on, as far as a scrape had seen them.",
    "A process at 1 second a second is at its limit: more `--workers` for readers, more shards for the vector index.",
)
PROCESS_RESTARTS: Final = Family(
    "nomemory_process_restarts_total",
    Kind.COUNTER,
    ("process", "role"),
    "How often a process was started again, whether it had died or was replaced on purpose.",
    "A process that dies again and again: the log says with which exit code, and its last words.",
)
PROCESSES_UNHEARD: Final = Family(
    "nomemory_processes_unheard",
    Kind.GAUGE,
    (),
    "Processes that did not say in time what they had counted. Their counts are those of an earlier scrape.",
    "For long: a reader hangs or is starting; `nomemory_fault` says more.",
)
FAULT: Final = Family(
    "nomemory_fault",
    Kind.GAUGE,
    ("part", "kind"),
    "1 for each fault that stands now: a part of the server, and what is wrong with it. No fault, no line.",
    "`nomemory status` has it in words. See [faults](operating.md#faults).",
)
CATALOG: Final[tuple[Family, ...]] = (
    BUILD,
    START,
    CALLS,
    ERRORS,
    HTTP_REFUSED,
    READS_RUNNING,
    READS_WAITING,
    READS_USERS,
    READS_REFUSED,
    QUEUE,
    LOG_READABLE,
    LOG_MESSAGES,
    LOG_USERS,
    LOG_SEQUENCE,
    LOG_DAMAGED,
    WRITTEN,
    DELETED,
    INDEX_PENDING,
    INDEX_LAG,
    INDEX_PARKED,
    INDEX_FAILING,
    EMBEDDER_CALLS,
    EMBEDDER_TEXTS,
    EMBEDDER_ERRORS,
    EMBEDDER_CACHE,
    RECALLS,
    RECALL_ROUNDS,
    RECALL_SEARCHES,
    RECALL_DROPPED,
    SPANS_SENT,
    SPANS_DROPPED,
    PROCESS_MEMORY,
    PROCESS_CPU,
    PROCESS_RESTARTS,
    PROCESSES_UNHEARD,
    FAULT,
)
BY_NAME: Final = {family.name: family for family in CATALOG}
