import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient, encodeBinaryHeader, type Client } from "@connectrpc/connect";
import {
  RecallService,
  type BuildContextRequestSchema,
  type BuildContextResponse,
  type RecallRequestSchema,
  type RecallResponse,
  type StreamRecallRequestSchema,
  type StreamRecallResponse,
} from "./gen/nomemory/v1/recall_service_pb.js";
import type { CallOptions } from "./client.js";
import type { ReliableTransport } from "./reliable_transport.js";

/** A question, and where the search starts. */
export type Question = MessageInitShape<typeof RecallRequestSchema>;

/** The latest turns, the running conversation, and the limit of tokens. */
export type ContextRequest = MessageInitShape<typeof BuildContextRequestSchema>;
/** A question whose steps are streamed. */
export type StreamedQuestion = MessageInitShape<typeof StreamRecallRequestSchema>;

/** Recalls for one user: of the caller's own token, or whom a service names. */
export class Recalls {
  readonly #transport: ReliableTransport;
  readonly #calls: Client<typeof RecallService>;
  readonly #timeoutMs: number;
  readonly #headers: Headers;

  constructor(transport: ReliableTransport, timeoutMs: number, userId?: string) {
    this.#transport = transport;
    this.#calls = createClient(RecallService, transport);
    this.#timeoutMs = timeoutMs;
    this.#headers = naming(userId);
  }

  /** Answer a question from what was said. */
  recall(request: Question, options: CallOptions = {}): Promise<RecallResponse> {
    return this.#calls.recall(request, { ...options, headers: this.#headers });
  }

  /** Select the messages that an assistant should have in its prompt. */
  buildContext(request: ContextRequest, options: CallOptions = {}): Promise<BuildContextResponse> {
    return this.#calls.buildContext(request, { ...options, headers: this.#headers });
  }

  /** Recall, and yield each step as it happens, then the result. Leaving the loop cancels the recall. */
  streamRecall(request: StreamedQuestion, options: CallOptions = {}): AsyncGenerator<StreamRecallResponse> {
    const { signal, timeoutMs = this.#timeoutMs } = options;
    const method = RecallService.method.streamRecall;
    return this.#transport.replies(method, signal, timeoutMs, this.#headers, request);
  }
}

/** Return the metadata that names a user. Text metadata is ASCII and is trimmed on its way; other ids travel as bytes. */
function naming(userId: string | undefined): Headers {
  const headers = new Headers();
  if (userId !== undefined && /^[ -~]*$/.test(userId) && userId === userId.trim()) {
    headers.set("x-user-id", userId);
  } else if (userId !== undefined) {
    headers.set("x-user-id-bin", encodeBinaryHeader(new TextEncoder().encode(userId)));
  }
  return headers;
}
