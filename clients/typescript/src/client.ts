import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Client, type Transport } from "@connectrpc/connect";
import { batches, requestId, type NewMessage } from "./batches.js";
import * as ingest from "./gen/nomemory/v1/ingest_service_pb.js";
import type { ChatMessage } from "./gen/nomemory/v1/message_pb.js";
import * as query from "./gen/nomemory/v1/query_service_pb.js";
import type { BuildContextResponse, RecallResponse, StreamRecallResponse } from "./gen/nomemory/v1/recall_service_pb.js";
import * as server from "./gen/nomemory/v1/server_service_pb.js";
import { checked, defaults, type ClientOptions } from "./options.js";
import { all, lexicalHits, type LexicalHit } from "./pages.js";
import { Recalls, type ContextRequest, type Question, type StreamedQuestion } from "./recalls.js";
import { ReliableTransport } from "./reliable_transport.js";

/** Options of one call: a signal that cancels it, and a deadline in milliseconds in place of the client's. */
export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

type Init<Schema extends DescMessage> = MessageInitShape<Schema>;

/**
 * Calls one server over any transport of Connect: gRPC in Node (`connect` of `@nomemory/client/node` makes it), gRPC-Web
 * through a proxy in a browser. Every method takes the contract's request as a plain object and answers with the contract's
 * reply, or throws a `NoMemoryError`.
 */
export class NoMemory {
  readonly #transport: ReliableTransport;
  readonly #options: ClientOptions;
  readonly #query: Client<typeof query.QueryService>;
  readonly #ingest: Client<typeof ingest.IngestService>;
  readonly #server: Client<typeof server.ServerService>;
  readonly #recalls: Recalls;

  constructor(transport: Transport, options: ClientOptions = {}) {
    this.#options = checked(options);
    this.#transport = new ReliableTransport(transport, options);
    this.#query = createClient(query.QueryService, this.#transport);
    this.#ingest = createClient(ingest.IngestService, this.#transport);
    this.#server = createClient(server.ServerService, this.#transport);
    this.#recalls = this.boundTo();
  }

  /** Close the connection. Calls in flight fail. */
  close(): void {
    this.#options.onClose?.();
  }

  /** Store up to 1,000 messages, all or nothing. Messages without ids get a request id, so that a retry stores them once. */
  writeMessages(
    request: Init<typeof ingest.WriteMessagesRequestSchema>,
    options?: CallOptions,
  ): Promise<ingest.WriteMessagesResponse> {
    const id = request.requestId || requestId(request.messages ?? []);
    return this.#ingest.writeMessages({ ...request, requestId: id }, options);
  }

  /** Store any number of messages, in batches. Refused ones are reported and skipped. */
  importMessages(
    messages: Iterable<NewMessage> | AsyncIterable<NewMessage>,
    options: CallOptions & { readonly replace?: boolean } = {},
  ): Promise<ingest.ImportMessagesResponse> {
    const { replace = false, ...call } = options;
    return this.#ingest.importMessages(batches(messages, replace), call);
  }

  /** Delete messages of a user, by ids or by a filter. */
  deleteMessages(
    request: Init<typeof ingest.DeleteMessagesRequestSchema>,
    options?: CallOptions,
  ): Promise<ingest.DeleteMessagesResponse> {
    return this.#ingest.deleteMessages(request, options);
  }

  /** Delete everything of a user. The receipt says what still holds bytes of it. */
  eraseUser(
    request: Init<typeof ingest.EraseUserRequestSchema>,
    options?: CallOptions,
  ): Promise<ingest.EraseUserResponse> {
    return this.#ingest.eraseUser(request, options);
  }

  /** Return how far the log and the indexes are, for one user or for all. */
  getIndexStatus(
    request: Init<typeof ingest.GetIndexStatusRequestSchema> = {},
    options?: CallOptions,
  ): Promise<ingest.GetIndexStatusResponse> {
    return this.#ingest.getIndexStatus(request, options);
  }

  /** Ask what the server is, what it can do, and how much it takes. */
  getServerInfo(options?: CallOptions): Promise<server.GetServerInfoResponse> {
    return this.#server.getServerInfo({}, options);
  }

  /** Read a page by time. */
  listMessages(
    request: Init<typeof query.ListMessagesRequestSchema>,
    options?: CallOptions,
  ): Promise<query.ListMessagesResponse> {
    return this.#query.listMessages(request, options);
  }

  /** Read by time to the end, page by page. */
  messages(
    request: Init<typeof query.ListMessagesRequestSchema>,
    options?: CallOptions,
  ): AsyncGenerator<ChatMessage> {
    return all(request, (next) => this.listMessages(next, options), (page) => page.items);
  }

  /** Find words and "phrases": one page, best first. */
  lexicalSearch(
    request: Init<typeof query.LexicalSearchRequestSchema>,
    options?: CallOptions,
  ): Promise<query.LexicalSearchResponse> {
    return this.#query.lexicalSearch(request, options);
  }

  /** Find words and "phrases" to the end, page by page. */
  lexicalHits(
    request: Init<typeof query.LexicalSearchRequestSchema>,
    options?: CallOptions,
  ): AsyncGenerator<LexicalHit> {
    return all(request, (next) => this.lexicalSearch(next, options), lexicalHits);
  }

  /** Find messages near a text in meaning, or near a vector of the caller's own. */
  semanticSearch(
    request: Init<typeof query.SemanticSearchRequestSchema>,
    options?: CallOptions,
  ): Promise<query.SemanticSearchResponse> {
    return this.#query.semanticSearch(request, options);
  }

  /** Find the messages that answer a question, best first. */
  hybridSearch(
    request: Init<typeof query.HybridSearchRequestSchema>,
    options?: CallOptions,
  ): Promise<query.HybridSearchResponse> {
    return this.#query.hybridSearch(request, options);
  }

  /** Read the messages around one of them, oldest first. */
  getNeighbors(
    request: Init<typeof query.GetNeighborsRequestSchema>,
    options?: CallOptions,
  ): Promise<query.GetNeighborsResponse> {
    return this.#query.getNeighbors(request, options);
  }

  /** Look up to 500 ids up, in the given order. */
  batchGetMessages(
    request: Init<typeof query.BatchGetMessagesRequestSchema>,
    options?: CallOptions,
  ): Promise<query.BatchGetMessagesResponse> {
    return this.#query.batchGetMessages(request, options);
  }

  /** Count a user's messages, or those that a filter admits. */
  countMessages(
    request: Init<typeof query.CountMessagesRequestSchema>,
    options?: CallOptions,
  ): Promise<query.CountMessagesResponse> {
    return this.#query.countMessages(request, options);
  }

  /** Read a page of a user's conversations, the one with the latest message first. */
  listConversations(
    request: Init<typeof query.ListConversationsRequestSchema>,
    options?: CallOptions,
  ): Promise<query.ListConversationsResponse> {
    return this.#query.listConversations(request, options);
  }

  /** Read a user's conversations to the end, page by page. */
  conversations(
    request: Init<typeof query.ListConversationsRequestSchema>,
    options?: CallOptions,
  ): AsyncGenerator<query.Conversation> {
    return all(request, (next) => this.listConversations(next, options), (page) => page.conversations);
  }

  /** Read a page of the users who have messages. It needs the scope `admin`. */
  listUsers(
    request: Init<typeof query.ListUsersRequestSchema> = {},
    options?: CallOptions,
  ): Promise<query.ListUsersResponse> {
    return this.#query.listUsers(request, options);
  }

  /** Read the users who have messages to the end, page by page. */
  users(
    request: Init<typeof query.ListUsersRequestSchema> = {},
    options?: CallOptions,
  ): AsyncGenerator<query.UserSummary> {
    return all(request, (next) => this.listUsers(next, options), (page) => page.users);
  }

  /**
   * Read all messages of a user, oldest first, in batches that an import takes. Each batch has a cursor to resume with;
   * that of the last one is empty. Leaving the loop stops the export.
   */
  exportMessages(
    request: Init<typeof query.ExportMessagesRequestSchema>,
    options: CallOptions = {},
  ): AsyncGenerator<query.ExportMessagesResponse> {
    const { signal, timeoutMs = this.#options.bulkTimeoutMs ?? defaults.bulkTimeoutMs } = options;
    return this.#transport.replies(query.QueryService.method.exportMessages, signal, timeoutMs, undefined, request);
  }

  /** Name the user of recalls, as a service with the scope `act-as` does. A user's own token names its user. */
  boundTo(userId?: string): Recalls {
    return new Recalls(this.#transport, this.#options.timeoutMs ?? defaults.timeoutMs, userId);
  }

  /** Answer a question about the user of the caller's token from what was said. */
  recall(request: Question, options?: CallOptions): Promise<RecallResponse> {
    return this.#recalls.recall(request, options);
  }

  /** Select the messages of the user of the caller's token that an assistant should have in its prompt. */
  buildContext(request: ContextRequest, options?: CallOptions): Promise<BuildContextResponse> {
    return this.#recalls.buildContext(request, options);
  }

  /** Recall, and yield each step as it happens, then the result. Leaving the loop cancels the recall. */
  streamRecall(request: StreamedQuestion, options?: CallOptions): AsyncGenerator<StreamRecallResponse> {
    return this.#recalls.streamRecall(request, options);
  }
}
