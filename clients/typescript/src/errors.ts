import { Code, ConnectError } from "@connectrpc/connect";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { ErrorReason, ErrorReasonSchema } from "./gen/nomemory/v1/error_reason_pb.js";

/** One bad field of a request, by its path. */
export interface Violation {
  readonly field: string;
  readonly description: string;
}

/** A call that did not succeed. */
export class NoMemoryError extends Error {
  override readonly name = "NoMemoryError";
  /** The gRPC status code. */
  readonly code: Code;
  /** The cause. UNSPECIFIED: the error did not come from a NoMemory server, or from a newer one. */
  readonly reason: ErrorReason;
  /** The bad fields of the request. */
  readonly violations: readonly Violation[];
  /** Further facts, as the server sent them. */
  readonly metadata: Readonly<Record<string, string>>;
  /** What the server's log knows the call by; empty where no server answered. */
  readonly requestId: string;
  /** Milliseconds after which to try again, where the server suggests it. */
  readonly retryAfterMs: number | undefined;

  constructor(cause: ConnectError) {
    super(cause.rawMessage, { cause });
    const [info] = cause.findDetails(ErrorInfoSchema);
    const [retry] = cause.findDetails(RetryInfoSchema);
    this.code = cause.code;
    this.reason = reasonOf(info?.reason);
    this.violations = cause
      .findDetails(BadRequestSchema)
      .flatMap((bad) => bad.fieldViolations.map(({ field, description }) => ({ field, description })));
    this.metadata = info?.metadata ?? {};
    this.requestId = cause.metadata.get("x-request-id") ?? this.metadata["request_id"] ?? "";
    this.retryAfterMs = retry?.retryDelay && durationMs(retry.retryDelay);
  }

  /** Convert what a transport threw. */
  static from(thrown: unknown): NoMemoryError {
    return thrown instanceof NoMemoryError ? thrown : new NoMemoryError(ConnectError.from(thrown));
  }
}

function reasonOf(name: string | undefined): ErrorReason {
  const known = ErrorReasonSchema.values.find((value) => value.name === name);
  return known?.number ?? ErrorReason.UNSPECIFIED;
}
