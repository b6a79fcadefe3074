import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Client, type Transport } from "@connectrpc/connect";
import { batches, requestId, type NewMessage } from "./batches.js";
import * as ingest from "./gen/nomemory/v1/ingest_service_pb.js";
import type { ChatMessage } from "./gen/nomemory/v1/message_pb.js";
import * as query from "./gen/nomemory/v1/query_service_pb.js";
import type { BuildContextResponse, RecallResponse, StreamRecallResponse } from "./gen/nomemory/v1/recall_service_pb.js";
import * as server from "./gen/nomemory/v1/server_service_pb.js";
import { defaults, validated, type ClientOptions } from "./options.js";
import { all, lexicalHits, type LexicalHit } from "./pages.js";
import { Recalls, type ContextRequest, type Question, type StreamedQuestion } from "./recalls.js";
import { ReliableTransport } from "./reliable_transport.js";

/** Options of one call: a signal that cancels it, and a timeout in milliseconds that replaces the client's timeout. */
export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

type Init<Schema extends DescMessage> = MessageInitShape<Schema>;

/**
 * Calls one server over a transport of Connect: gRPC in Node (see `connect` of `@nomemory/client/node`), or gRPC-Web through
 * a proxy in a browser. Every method takes the request as a plain object, and returns the response or throws a
 * `NoMemoryError`.
 */
export class NoMemory {
  readonly #transport: ReliableTransport;
  readonly #options: ClientOptions;
  readonly #query: Client<typeof query.QueryService>;
  readonly #ingest: Client<typeof ingest.IngestService>;
  readonly #server: Client<typeof server.ServerService>;
  readonly #recalls: Recalls;

  constructor(transport: Transport, options: ClientOptions = {}) {
    this.#options = validated(options);
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

  /** Store up to 1,000 messages atomically. If a message has no id, the call gets a request id, so that a retry is safe. */
  writeMessages(
    request: Init<typeof ingest.WriteMessagesRequestSchema>,
    options?: CallOptions,
  ): Promise<ingest.WriteMessagesResponse> {
    const id = request.requestId || requestId(request.messages ?? []);
    return this.#ingest.writeMessages({ ...request, requestId: id }, options);
  }

  /** Store any number of messages in batches. Rejected messages are skipped and reported in the response. */
  importMessages(
    messages: Iterable<NewMessage> | AsyncIterable<NewMessage>,
    options: CallOptions & { readonly replace?: boolean } = {},
  ): Promise<ingest.ImportMessagesResponse> {
    const { replace = false, ...call } = options;
    return this.#ingest.importMessages(batches(messages, replace), call);
  }

  /** Delete messages of a user by ids or by a filter. */
  deleteMessages(
    request: Init<typeof ingest.DeleteMessagesRequestSchema>,
    options?: CallOptions,
  ): Promise<ingest.DeleteMessagesResponse> {
    return this.#ingest.deleteMessages(request, options);
  }

  /** Delete all data of a user. The receipt lists the storage locations with remaining bytes of the user. */
  eraseUser(
    request: Init<typeof ingest.EraseUserRequestSchema>,
    options?: CallOptions,
  ): Promise<ingest.EraseUserResponse> {
    return this.#ingest.eraseUser(request, options);
  }

  /** Return the status of the message log and of the indexes, for one user or for all users. */
  getIndexStatus(
    request: Init<typeof ingest.GetIndexStatusRequestSchema> = {},
    options?: CallOptions,
  ): Promise<ingest.GetIndexStatusResponse> {
    return this.#ingest.getIndexStatus(request, options);
  }

  /** Return the version, the features and the limits of the server. */
  getServerInfo(options?: CallOptions): Promise<server.GetServerInfoResponse> {
    return this.#server.getServerInfo({}, options);
  }

  /** Return a page of messages in time order. */
  listMessages(
    request: Init<typeof query.ListMessagesRequestSchema>,
    options?: CallOptions,
  ): Promise<query.ListMessagesResponse> {
    return this.#query.listMessages(request, options);
  }

  /** Yield all messages in time order, page by page. */
  messages(
    request: Init<typeof query.ListMessagesRequestSchema>,
    options?: CallOptions,
  ): AsyncGenerator<ChatMessage> {
    return all(request, (next) => this.listMessages(next, options), (page) => page.items);
  }

  /** Return a page of the results of a lexical search, best first. */
  lexicalSearch(
    request: Init<typeof query.LexicalSearchRequestSchema>,
    options?: CallOptions,
  ): Promise<query.LexicalSearchResponse> {
    return this.#query.lexicalSearch(request, options);
  }

  /** Yield all results of a lexical search, page by page. */
  lexicalHits(
    request: Init<typeof query.LexicalSearchRequestSchema>,
    options?: CallOptions,
  ): AsyncGenerator<LexicalHit> {
    return all(request, (next) => this.lexicalSearch(next, options), lexicalHits);
  }

  /** Find the messages that are semantically similar to a text or a vector, most similar first. */
  semanticSearch(
    request: Init<typeof query.SemanticSearchRequestSchema>,
    options?: CallOptions,
  ): Promise<query.SemanticSearchResponse> {
    return this.#query.semanticSearch(request, options);
  }

  /** Find the messages that answer a question (hybrid search), best first. */
  hybridSearch(
    request: Init<typeof query.HybridSearchRequestSchema>,
    options?: CallOptions,
  ): Promise<query.HybridSearchResponse> {
    return this.#query.hybridSearch(request, options);
  }

  /** Return the messages around an anchor message, oldest first. */
  getNeighbors(
    request: Init<typeof query.GetNeighborsRequestSchema>,
    options?: CallOptions,
  ): Promise<query.GetNeighborsResponse> {
    return this.#query.getNeighbors(request, options);
  }

  /** Return up to 500 messages by their ids, in the order of the ids. */
  batchGetMessages(
    request: Init<typeof query.BatchGetMessagesRequestSchema>,
    options?: CallOptions,
  ): Promise<query.BatchGetMessagesResponse> {
    return this.#query.batchGetMessages(request, options);
  }

  /** Count the messages of a user that match a filter. */
  countMessages(
    request: Init<typeof query.CountMessagesRequestSchema>,
    options?: CallOptions,
  ): Promise<query.CountMessagesResponse> {
    return this.#query.countMessages(request, options);
  }

  /** Return a page of a user's conversations, the most recent first. */
  listConversations(
    request: Init<typeof query.ListConversationsRequestSchema>,
    options?: CallOptions,
  ): Promise<query.ListConversationsResponse> {
    return this.#query.listConversations(request, options);
  }

  /** Yield all conversations of a user, page by page. */
  conversations(
    request: Init<typeof query.ListConversationsRequestSchema>,
    options?: CallOptions,
  ): AsyncGenerator<query.Conversation> {
    return all(request, (next) => this.listConversations(next, options), (page) => page.conversations);
  }

  /** Return a page of the users with messages. Requires the scope `admin`. */
  listUsers(
    request: Init<typeof query.ListUsersRequestSchema> = {},
    options?: CallOptions,
  ): Promise<query.ListUsersResponse> {
    return this.#query.listUsers(request, options);
  }

  /** Yield all users with messages, page by page. Requires the scope `admin`. */
  users(
    request: Init<typeof query.ListUsersRequestSchema> = {},
    options?: CallOptions,
  ): AsyncGenerator<query.UserSummary> {
    return all(request, (next) => this.listUsers(next, options), (page) => page.users);
  }

  /**
   * Yield all messages of a user, oldest first, in batches that `importMessages` accepts. Each batch has a cursor to resume
   * the export; the cursor of the last batch is empty. Leaving the loop cancels the export.
   */
  exportMessages(
    request: Init<typeof query.ExportMessagesRequestSchema>,
    options: CallOptions = {},
  ): AsyncGenerator<query.ExportMessagesResponse> {
    const { signal, timeoutMs = this.#options.bulkTimeoutMs ?? defaults.bulkTimeoutMs } = options;
    return this.#transport.replies(query.QueryService.method.exportMessages, signal, timeoutMs, undefined, request);
  }

  /** Return recalls for a user. Requires the scope `act-as`; without `userId`, the user is that of the token. */
  boundTo(userId?: string): Recalls {
    return new Recalls(this.#transport, this.#options.timeoutMs ?? defaults.timeoutMs, userId);
  }

  /** Answer a question from the messages of the token's user. */
  recall(request: Question, options?: CallOptions): Promise<RecallResponse> {
    return this.#recalls.recall(request, options);
  }

  /** Select messages of the token's user for the prompt of an assistant. */
  buildContext(request: ContextRequest, options?: CallOptions): Promise<BuildContextResponse> {
    return this.#recalls.buildContext(request, options);
  }

  /** Run a recall and yield each step as it completes, then the result. Leaving the loop cancels the recall. */
  streamRecall(request: StreamedQuestion, options?: CallOptions): AsyncGenerator<StreamRecallResponse> {
    return this.#recalls.streamRecall(request, options);
  }
}
