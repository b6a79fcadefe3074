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
 * Calls one server. Threads may share it.
 *
 * <p>Every method takes the contract's request and returns its reply, or throws a {@link NoMemoryException}. A call that
 * meets UNAVAILABLE is sent again; a stream only until something of it has arrived. A call ends after the timeout of its
 * client, or with the deadline of gRPC's current {@link io.grpc.Context} if that is sooner.
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
   * Make a client that is as by default: in the clear, without credentials. It connects at the first call.
   *
   * @param target HOST:PORT
   * @return a client, to be closed
   */
  public static NoMemoryClient connect(String target) {
    return builder(target).build();
  }

  /**
   * Begin a client of the server at a target.
   *
   * @param target HOST:PORT
   * @return what sets credentials, TLS, timeouts and retries
   */
  public static ClientBuilder builder(String target) {
    return ClientBuilder.to(target);
  }

  /**
   * Begin a client over a channel of gRPC, for interceptors, keep-alive, or a server in the same process.
   *
   * @param channel decides about TLS; the client adds credentials and retries, and closes what it builds
   * @return what sets credentials, timeouts and retries
   */
  public static ClientBuilder builder(ManagedChannelBuilder<?> channel) {
    return ClientBuilder.over(channel);
  }

  /**
   * Give calls another time.
   *
   * @param timeout of each call that is made with the result, imports and exports included; more than 0
   * @return a client over the same connection; closing either closes both
   */
  public NoMemoryClient withTimeout(Duration timeout) {
    Calls within = new Calls(calls.channel(), timeout);
    return new NoMemoryClient(connection, within, within);
  }

  /**
   * Return the channel, for gRPC's own asynchronous stubs. Calls over it have the credential and are sent again, but have
   * no deadline and fail with gRPC's exceptions.
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
   * Store up to 1,000 messages, all or nothing. Messages without ids get a request id, so that a retry stores them once.
   *
   * @param request the batch
   * @return what happened to each message, and a token with which a read sees this write
   */
  public WriteMessagesResponse writeMessages(WriteMessagesRequest request) {
    return calls.unary(IngestServiceGrpc.getWriteMessagesMethod(), repeatable(request));
  }

  /**
   * Store any number of messages in batches. Refused ones are reported and skipped.
   *
   * @param messages read once, as fast as the server takes them; {@code stream::iterator} for a stream
   * @return the sums, and what was refused
   */
  public ImportMessagesResponse importMessages(Iterable<ChatMessage> messages) {
    return importMessages(messages, false);
  }

  /**
   * Store any number of messages in batches. Refused ones are reported and skipped.
   *
   * @param messages read once, as fast as the server takes them; {@code stream::iterator} for a stream
   * @param replace whether a message may take the place of the one with its id
   * @return the sums, and what was refused
   */
  public ImportMessagesResponse importMessages(Iterable<ChatMessage> messages, boolean replace) {
    return bulk.upload(IngestServiceGrpc.getImportMessagesMethod(), new Batches(messages.iterator(), replace));
  }

  /**
   * Delete messages of a user, by ids or by a filter.
   *
   * @param request names what to delete
   * @return how many there were
   */
  public DeleteMessagesResponse deleteMessages(DeleteMessagesRequest request) {
    return calls.unary(IngestServiceGrpc.getDeleteMessagesMethod(), request);
  }

  /**
   * Delete everything of a user.
   *
   * @param request names the user
   * @return a receipt that says what still holds bytes of it
   */
  public EraseUserResponse eraseUser(EraseUserRequest request) {
    return calls.unary(IngestServiceGrpc.getEraseUserMethod(), request);
  }

  /**
   * Ask how far the log and the indexes are.
   *
   * @param request names a user, or nobody for all
   * @return the status
   */
  public GetIndexStatusResponse getIndexStatus(GetIndexStatusRequest request) {
    return calls.unary(IngestServiceGrpc.getGetIndexStatusMethod(), request);
  }

  /**
   * Ask what the server is, what it can do, and how much it takes.
   *
   * @return its description
   */
  public GetServerInfoResponse getServerInfo() {
    return calls.unary(ServerServiceGrpc.getGetServerInfoMethod(), GetServerInfoRequest.getDefaultInstance());
  }

  /**
   * Read a page by time.
   *
   * @param request names the user
   * @return the page, and the cursor of the next one
   */
  public ListMessagesResponse listMessages(ListMessagesRequest request) {
    return calls.unary(QueryServiceGrpc.getListMessagesMethod(), request);
  }

  /**
   * Read by time to the end, page by page.
   *
   * @param request names the user; its cursor is where to begin
   * @return the messages
   */
  public Listing<ChatMessage> messages(ListMessagesRequest request) {
    return new Listing<>(request.getCursor(), cursor -> {
      ListMessagesResponse page = listMessages(request.toBuilder().setCursor(cursor).build());
      return new Page<>(page.getItemsList(), page.getNextCursor());
    });
  }

  /**
   * Find words and "phrases": one page.
   *
   * @param request names the user and has the query
   * @return the page, best first; {@link LexicalHit#of} puts its parallel lists together
   */
  public LexicalSearchResponse lexicalSearch(LexicalSearchRequest request) {
    return calls.unary(QueryServiceGrpc.getLexicalSearchMethod(), request);
  }

  /**
   * Find words and "phrases" to the end, page by page.
   *
   * @param request names the user and has the query; its cursor is where to begin
   * @return the hits, best first
   */
  public Listing<LexicalHit> lexicalHits(LexicalSearchRequest request) {
    return new Listing<>(request.getCursor(), cursor -> {
      LexicalSearchResponse page = lexicalSearch(request.toBuilder().setCursor(cursor).build());
      return new Page<>(LexicalHit.of(page), page.getNextCursor());
    });
  }

  /**
   * Find messages near a text in meaning, or near a vector of the caller's own.
   *
   * @param request names the user and has the text or the vector
   * @return the messages, nearest first
   */
  public SemanticSearchResponse semanticSearch(SemanticSearchRequest request) {
    return calls.unary(QueryServiceGrpc.getSemanticSearchMethod(), request);
  }

  /**
   * Find the messages that answer a question.
   *
   * @param request names the user and has the question
   * @return the messages, best first
   */
  public HybridSearchResponse hybridSearch(HybridSearchRequest request) {
    return calls.unary(QueryServiceGrpc.getHybridSearchMethod(), request);
  }

  /**
   * Read the messages around one of them.
   *
   * @param request names the user and the message
   * @return the messages, oldest first
   */
  public GetNeighborsResponse getNeighbors(GetNeighborsRequest request) {
    return calls.unary(QueryServiceGrpc.getGetNeighborsMethod(), request);
  }

  /**
   * Look up to 500 ids up.
   *
   * @param request names the user and the ids
   * @return the messages, in the order of the ids
   */
  public BatchGetMessagesResponse batchGetMessages(BatchGetMessagesRequest request) {
    return calls.unary(QueryServiceGrpc.getBatchGetMessagesMethod(), request);
  }

  /**
   * Count a user's messages, or those that a filter admits.
   *
   * @param request names the user
   * @return the count
   */
  public CountMessagesResponse countMessages(CountMessagesRequest request) {
    return calls.unary(QueryServiceGrpc.getCountMessagesMethod(), request);
  }

  /**
   * Read a page of a user's conversations.
   *
   * @param request names the user
   * @return the page, the conversation with the latest message first
   */
  public ListConversationsResponse listConversations(ListConversationsRequest request) {
    return calls.unary(QueryServiceGrpc.getListConversationsMethod(), request);
  }

  /**
   * Read a user's conversations to the end, page by page.
   *
   * @param request names the user; its cursor is where to begin
   * @return the conversations, the one with the latest message first
   */
  public Listing<Conversation> conversations(ListConversationsRequest request) {
    return new Listing<>(request.getCursor(), cursor -> {
      ListConversationsResponse page = listConversations(request.toBuilder().setCursor(cursor).build());
      return new Page<>(page.getConversationsList(), page.getNextCursor());
    });
  }

  /**
   * Read a page of the users who have messages. It needs the scope {@code admin}.
   *
   * @param request says how many
   * @return the page, by the users' ids
   */
  public ListUsersResponse listUsers(ListUsersRequest request) {
    return calls.unary(QueryServiceGrpc.getListUsersMethod(), request);
  }

  /**
   * Read the users who have messages to the end, page by page. It needs the scope {@code admin}.
   *
   * @param request its cursor is where to begin
   * @return the users, by their ids
   */
  public Listing<UserSummary> users(ListUsersRequest request) {
    return new Listing<>(request.getCursor(), cursor -> {
      ListUsersResponse page = listUsers(request.toBuilder().setCursor(cursor).build());
      return new Page<>(page.getUsersList(), page.getNextCursor());
    });
  }

  /**
   * Read all messages of a user, oldest first, in batches that an import takes. Closing the replies stops the export.
   *
   * @param request names the user
   * @return the batches, each with a cursor to resume with; that of the last one is empty
   */
  public Replies<ExportMessagesResponse> exportMessages(ExportMessagesRequest request) {
    return bulk.stream(QueryServiceGrpc.getExportMessagesMethod(), request);
  }

  /**
   * Name the user of recalls, as a service with the scope {@code act-as} does. A caller with a user's own token needs no
   * binding: the token names the user.
   *
   * @param userId travels in metadata, never in a request
   * @return recalls for that user
   */
  public BoundRecalls boundTo(String userId) {
    return new BoundRecalls(calls.with(UserMetadata.naming(userId)));
  }

  /**
   * Answer a question about the user of the caller's token from what was said.
   *
   * @param question the question, and where the search starts
   * @return the statements with their evidence
   */
  public RecallResponse recall(RecallRequest question) {
    return recalls.recall(question);
  }

  /**
   * Select the messages of the user of the caller's token that an assistant should have in its prompt.
   *
   * @param request the latest turns, the running conversation, and the limit of tokens
   * @return the messages, and the text that shows them
   */
  public BuildContextResponse buildContext(BuildContextRequest request) {
    return recalls.buildContext(request);
  }

  /**
   * Recall, and show each step as it happens, then the result. Closing the replies cancels the recall.
   *
   * @param question the question, and where the search starts
   * @return the steps, and last the result; what fails, fails in reading them
   */
  public Replies<StreamRecallResponse> streamRecall(StreamRecallRequest question) {
    return recalls.streamRecall(question);
  }

  private static WriteMessagesRequest repeatable(WriteMessagesRequest request) {
    if (!request.getRequestId().isEmpty()) {
      return request;
    }
    return request.toBuilder().setRequestId(RequestIds.of(request.getMessagesList())).build();
  }
}
