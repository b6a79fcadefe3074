import { Code, ConnectError } from "@connectrpc/connect";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { ErrorReason, ErrorReasonSchema } from "./gen/nomemory/v1/error_reason_pb.js";

/** An invalid field of a request. `field` is its path. */
export interface Violation {
  readonly field: string;
  readonly description: string;
}

/** The error of a failed call. */
export class NoMemoryError extends Error {
  override readonly name = "NoMemoryError";
  /** The gRPC status code. */
  readonly code: Code;
  /** The cause. UNSPECIFIED: not sent by a NoMemory server, or unknown to this client. */
  readonly reason: ErrorReason;
  /** The invalid fields of the request. */
  readonly violations: readonly Violation[];
  /** Additional details from the server. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The id of the call in the server's log. Empty if the server did not respond. */
  readonly requestId: string;
  /** The delay in milliseconds that the server requests before a retry. Undefined if the server requests none. */
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

  /** Convert an error of a transport. */
  static from(thrown: unknown): NoMemoryError {
    return thrown instanceof NoMemoryError ? thrown : new NoMemoryError(ConnectError.from(thrown));
  }
}

function reasonOf(name: string | undefined): ErrorReason {
  const known = ErrorReasonSchema.values.find((value) => value.name === name);
  return known?.number ?? ErrorReason.UNSPECIFIED;
}
