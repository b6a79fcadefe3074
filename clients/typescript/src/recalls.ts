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

/** The request of a recall. */
export type Question = MessageInitShape<typeof RecallRequestSchema>;

/** The request of a context. */
export type ContextRequest = MessageInitShape<typeof BuildContextRequestSchema>;

/** The request of a streamed recall. */
export type StreamedQuestion = MessageInitShape<typeof StreamRecallRequestSchema>;

/** Recalls for one user: the user of the token, or the user that a service passes. */
export class Recalls {
  readonly #transport: ReliableTransport;
  readonly #calls: Client<typeof RecallService>;
  readonly #timeoutMs: number;
  readonly #headers: Headers;

  constructor(transport: ReliableTransport, timeoutMs: number, userId?: string) {
    this.#transport = transport;
    this.#calls = createClient(RecallService, transport);
    this.#timeoutMs = timeoutMs;
    this.#headers = userHeaders(userId);
  }

  /** Answer a question from the messages of the user. */
  recall(request: Question, options: CallOptions = {}): Promise<RecallResponse> {
    return this.#calls.recall(request, { ...options, headers: this.#headers });
  }

  /** Select messages for the prompt of an assistant. */
  buildContext(request: ContextRequest, options: CallOptions = {}): Promise<BuildContextResponse> {
    return this.#calls.buildContext(request, { ...options, headers: this.#headers });
  }

  /** Run a recall and yield each step as it completes, then the result. Leaving the loop cancels the recall. */
  streamRecall(request: StreamedQuestion, options: CallOptions = {}): AsyncGenerator<StreamRecallResponse> {
    const { signal, timeoutMs = this.#timeoutMs } = options;
    const method = RecallService.method.streamRecall;
    return this.#transport.replies(method, signal, timeoutMs, this.#headers, request);
  }
}

/** Return the metadata with the user id. Text metadata must be ASCII and is trimmed, so other ids are sent as binary. */
function userHeaders(userId: string | undefined): Headers {
  const headers = new Headers();
  if (userId !== undefined && /^[ -~]*$/.test(userId) && userId === userId.trim()) {
    headers.set("x-user-id", userId);
  } else if (userId !== undefined) {
    headers.set("x-user-id-bin", encodeBinaryHeader(new TextEncoder().encode(userId)));
  }
  return headers;
}
