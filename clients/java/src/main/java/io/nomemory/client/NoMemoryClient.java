package io.nomemory.client;

import io.grpc.Channel;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.nomemory.client.Listing.Page;
import io.nomemory.v1.BatchGetMessagesRequest;
import io.nomemory.v1.BatchGetMessagesResponse;
import io.nomemory.v1.BuildContextRequest;
import io.nomemory.v1.BuildContextResponse;
import io.nomemory.v1.ChatMessage;
import io.nomemory.v1.Conversation;
import io.nomemory.v1.CountMessagesRequest;
import io.nomemory.v1.CountMessagesResponse;
import io.nomemory.v1.DeleteMessagesRequest;
import io.nomemory.v1.DeleteMessagesResponse;
import io.nomemory.v1.EraseUserRequest;
import io.nomemory.v1.EraseUserResponse;
import io.nomemory.v1.ExportMessagesRequest;
import io.nomemory.v1.ExportMessagesResponse;
import io.nomemory.v1.GetIndexStatusRequest;
import io.nomemory.v1.GetIndexStatusResponse;
import io.nomemory.v1.GetNeighborsRequest;
import io.nomemory.v1.GetNeighborsResponse;
import io.nomemory.v1.GetServerInfoRequest;
import io.nomemory.v1.GetServerInfoResponse;
import io.nomemory.v1.HybridSearchRequest;
import io.nomemory.v1.HybridSearchResponse;
import io.nomemory.v1.ImportMessagesResponse;
import io.nomemory.v1.IngestServiceGrpc;
import io.nomemory.v1.LexicalSearchRequest;
import io.nomemory.v1.LexicalSearchResponse;
import io.nomemory.v1.ListConversationsRequest;
import io.nomemory.v1.ListConversationsResponse;
import io.nomemory.v1.ListMessagesRequest;
import io.nomemory.v1.ListMessagesResponse;
import io.nomemory.v1.ListUsersRequest;
import io.nomemory.v1.ListUsersResponse;
import io.nomemory.v1.QueryServiceGrpc;
import io.nomemory.v1.RecallRequest;
import io.nomemory.v1.RecallResponse;
import io.nomemory.v1.SemanticSearchRequest;
import io.nomemory.v1.SemanticSearchResponse;
import io.nomemory.v1.ServerServiceGrpc;
import io.nomemory.v1.StreamRecallRequest;
import io.nomemory.v1.StreamRecallResponse;
import io.nomemory.v1.UserSummary;
import io.nomemory.v1.WriteMessagesRequest;
import io.nomemory.v1.WriteMessagesResponse;
import java.time.Duration;

/**
 * Calls one server. The client is thread-safe.
 *
 * <p>Every method takes the request message, and returns the response message or throws a {@link NoMemoryException}. A call
 * that fails with UNAVAILABLE is retried; a stream is retried only before its first response. A call ends after the timeout
 * of the client, or at the deadline of the current gRPC {@link io.grpc.Context} if that is earlier.
 */
public final class NoMemoryClient implements AutoCloseable {
  private final ManagedChannel connection;
  private final Calls calls;
  private final Calls bulk;
  private final BoundRecalls recalls;

  NoMemoryClient(ManagedChannel connection, Calls calls, Calls bulk) {
    this.connection = connection;
    this.calls = calls;
    this.bulk = bulk;
    this.recalls = new BoundRecalls(calls);
  }

  /**
   * Create a client with the defaults: plaintext, without credentials. It connects at the first call.
   *
   * @param target HOST:PORT
   * @return a client that the caller closes
   */
  public static NoMemoryClient connect(String target) {
    return builder(target).build();
  }

  /**
   * Configure a client of the server at a target.
   *
   * @param target HOST:PORT
   * @return a builder
   */
  public static ClientBuilder builder(String target) {
    return ClientBuilder.to(target);
  }

  /**
   * Configure a client with a gRPC channel builder, for interceptors, keep-alive, or an in-process server.
   *
   * @param channel the channel builder, which configures TLS; the client adds credentials and retries, and closes the channel
   * @return a builder
   */
  public static ClientBuilder builder(ManagedChannelBuilder<?> channel) {
    return ClientBuilder.over(channel);
  }

  /**
   * Return a client with another timeout.
   *
   * @param timeout the timeout of all calls, including imports and exports; positive
   * @return a client with the same connection; closing one closes both
   */
  public NoMemoryClient withTimeout(Duration timeout) {
    Calls withTimeout = new Calls(calls.channel(), timeout);
    return new NoMemoryClient(connection, withTimeout, withTimeout);
  }

  /**
   * Return the channel, for the generated asynchronous stubs. Its calls have credentials and retries, but no default
   * timeout, and they throw gRPC exceptions.
   *
   * @return the channel of this client
   */
  public Channel channel() {
    return calls.channel();
  }

  /** Close the connection. Calls in flight fail. */
  @Override
  public void close() {
    connection.shutdownNow();
  }

  /**
   * Store up to 1,000 messages atomically. If a message has no id, the call gets a request id, so that a retry is safe.
   *
   * @param request the batch
   * @return the result of each message, and a write token
   */
  public WriteMessagesResponse writeMessages(WriteMessagesRequest request) {
    return calls.unary(IngestServiceGrpc.getWriteMessagesMethod(), withRequestId(request));
  }

  /**
   * Store any number of messages in batches. Rejected messages are skipped and reported in the response.
   *
   * @param messages the messages, read once and with flow control; {@code stream::iterator} for a stream
   * @return the counts and the rejected messages
   */
  public ImportMessagesResponse importMessages(Iterable<ChatMessage> messages) {
    return importMessages(messages, false);
  }

  /**
   * Store any number of messages in batches. Rejected messages are skipped and reported in the response.
   *
   * @param messages the messages, read once and with flow control; {@code stream::iterator} for a stream
   * @param replace whether a message can replace the stored message with the same id
   * @return the counts and the rejected messages
   */
  public ImportMessagesResponse importMessages(Iterable<ChatMessage> messages, boolean replace) {
    return bulk.upload(IngestServiceGrpc.getImportMessagesMethod(), new Batches(messages.iterator(), replace));
  }

  /**
   * Delete messages of a user by ids or by a filter.
   *
   * @param request the user, and ids or a filter
   * @return the number of deleted messages
   */
  public DeleteMessagesResponse deleteMessages(DeleteMessagesRequest request) {
    return calls.unary(IngestServiceGrpc.getDeleteMessagesMethod(), request);
  }

  /**
   * Delete all data of a user.
   *
   * @param request the user
   * @return a receipt that lists the storage locations with remaining bytes of the user
   */
  public EraseUserResponse eraseUser(EraseUserRequest request) {
    return calls.unary(IngestServiceGrpc.getEraseUserMethod(), request);
  }

  /**
   * Return the status of the message log and of the indexes.
   *
   * @param request the user; empty for all users
   * @return the status
   */
  public GetIndexStatusResponse getIndexStatus(GetIndexStatusRequest request) {
    return calls.unary(IngestServiceGrpc.getGetIndexStatusMethod(), request);
  }

  /**
   * Return the version, the features and the limits of the server.
   *
   * @return the description of the server
   */
  public GetServerInfoResponse getServerInfo() {
    return calls.unary(ServerServiceGrpc.getGetServerInfoMethod(), GetServerInfoRequest.getDefaultInstance());
  }

  /**
   * Return a page of messages in time order.
   *
   * @param request the user
   * @return the page, and the cursor of the next page
   */
  public ListMessagesResponse listMessages(ListMessagesRequest request) {
    return calls.unary(QueryServiceGrpc.getListMessagesMethod(), request);
  }

  /**
   * Return all messages in time order, read page by page.
   *
   * @param request the request for the first page
   * @return the messages
   */
  public Listing<ChatMessage> messages(ListMessagesRequest request) {
    return new Listing<>(request.getCursor(), cursor -> {
      ListMessagesResponse page = listMessages(request.toBuilder().setCursor(cursor).build());
      return new Page<>(page.getItemsList(), page.getNextCursor());
    });
  }

  /**
   * Return a page of the results of a lexical search.
   *
   * @param request the user and the query
   * @return the page, best first; {@link LexicalHit#of} combines its items, scores and highlights
   */
  public LexicalSearchResponse lexicalSearch(LexicalSearchRequest request) {
    return calls.unary(QueryServiceGrpc.getLexicalSearchMethod(), request);
  }

  /**
   * Return all results of a lexical search, read page by page.
   *
   * @param request the request for the first page
   * @return the hits, best first
   */
  public Listing<LexicalHit> lexicalHits(LexicalSearchRequest request) {
    return new Listing<>(request.getCursor(), cursor -> {
      LexicalSearchResponse page = lexicalSearch(request.toBuilder().setCursor(cursor).build());
      return new Page<>(LexicalHit.of(page), page.getNextCursor());
    });
  }

  /**
   * Find the messages that are semantically similar to a text or a vector.
   *
   * @param request the user, and a text or a vector
   * @return the messages, most similar first
   */
  public SemanticSearchResponse semanticSearch(SemanticSearchRequest request) {
    return calls.unary(QueryServiceGrpc.getSemanticSearchMethod(), request);
  }

  /**
   * Find the messages that answer a question (hybrid search).
   *
   * @param request the user and the question
   * @return the messages, best first
   */
  public HybridSearchResponse hybridSearch(HybridSearchRequest request) {
    return calls.unary(QueryServiceGrpc.getHybridSearchMethod(), request);
  }

  /**
   * Return the messages around an anchor message.
   *
   * @param request the user and the anchor
   * @return the messages, oldest first
   */
  public GetNeighborsResponse getNeighbors(GetNeighborsRequest request) {
    return calls.unary(QueryServiceGrpc.getGetNeighborsMethod(), request);
  }

  /**
   * Return up to 500 messages by their ids.
   *
   * @param request the user and the ids
   * @return the messages, in the order of the ids
   */
  public BatchGetMessagesResponse batchGetMessages(BatchGetMessagesRequest request) {
    return calls.unary(QueryServiceGrpc.getBatchGetMessagesMethod(), request);
  }

  /**
   * Count the messages of a user that match a filter.
   *
   * @param request the user
   * @return the count
   */
  public CountMessagesResponse countMessages(CountMessagesRequest request) {
    return calls.unary(QueryServiceGrpc.getCountMessagesMethod(), request);
  }

  /**
   * Return a page of a user's conversations.
   *
   * @param request the user
   * @return the page, most recent conversation first
   */
  public ListConversationsResponse listConversations(ListConversationsRequest request) {
    return calls.unary(QueryServiceGrpc.getListConversationsMethod(), request);
  }

  /**
   * Return all conversations of a user, read page by page.
   *
   * @param request the request for the first page
   * @return the conversations, most recent first
   */
  public Listing<Conversation> conversations(ListConversationsRequest request) {
    return new Listing<>(request.getCursor(), cursor -> {
      ListConversationsResponse page = listConversations(request.toBuilder().setCursor(cursor).build());
      return new Page<>(page.getConversationsList(), page.getNextCursor());
    });
  }

  /**
   * Return a page of the users with messages. Requires the scope {@code admin}.
   *
   * @param request the page size and cursor
   * @return the page, ordered by user id
   */
  public ListUsersResponse listUsers(ListUsersRequest request) {
    return calls.unary(QueryServiceGrpc.getListUsersMethod(), request);
  }

  /**
   * Return all users with messages, read page by page. Requires the scope {@code admin}.
   *
   * @param request the request for the first page
   * @return the users, ordered by id
   */
  public Listing<UserSummary> users(ListUsersRequest request) {
    return new Listing<>(request.getCursor(), cursor -> {
      ListUsersResponse page = listUsers(request.toBuilder().setCursor(cursor).build());
      return new Page<>(page.getUsersList(), page.getNextCursor());
    });
  }

  /**
   * Return all messages of a user, oldest first, in batches that an import accepts. Closing the stream cancels the export.
   *
   * @param request the user
   * @return the batches, each with a cursor to resume the export; the cursor of the last batch is empty
   */
  public Replies<ExportMessagesResponse> exportMessages(ExportMessagesRequest request) {
    return bulk.stream(QueryServiceGrpc.getExportMessagesMethod(), request);
  }

  /**
   * Return recalls for a user. Requires an API key with the scope {@code act-as}. With a user token, call the methods of
   * this class instead: the token names the user.
   *
   * @param userId the user, sent as call metadata
   * @return the recalls of the user
   */
  public BoundRecalls boundTo(String userId) {
    return new BoundRecalls(calls.with(UserMetadata.of(userId)));
  }

  /**
   * Answer a question from the messages of the token's user.
   *
   * @param question the request
   * @return the answer with its evidence
   */
  public RecallResponse recall(RecallRequest question) {
    return recalls.recall(question);
  }

  /**
   * Select messages of the token's user for the prompt of an assistant.
   *
   * @param request the latest turns, the current conversation, and the token limit
   * @return the messages, and the same messages as text
   */
  public BuildContextResponse buildContext(BuildContextRequest request) {
    return recalls.buildContext(request);
  }

  /**
   * Run a recall and return each step as it completes, then the result. Closing the stream cancels the recall.
   *
   * @param question the request
   * @return the steps, then the result; reading it throws an exception if the call fails
   */
  public Replies<StreamRecallResponse> streamRecall(StreamRecallRequest question) {
    return recalls.streamRecall(question);
  }

  private static WriteMessagesRequest withRequestId(WriteMessagesRequest request) {
    if (!request.getRequestId().isEmpty()) {
      return request;
    }
    return request.toBuilder().setRequestId(RequestIds.of(request.getMessagesList())).build();
  }
}
