package io.nomemory.golden;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import io.nomemory.client.BoundRecalls;
import io.nomemory.client.LexicalHit;
import io.nomemory.client.NoMemoryClient;
import io.nomemory.v1.BatchGetMessagesRequest;
import io.nomemory.v1.BuildContextRequest;
import io.nomemory.v1.CountMessagesRequest;
import io.nomemory.v1.DeleteMessagesRequest;
import io.nomemory.v1.EraseUserRequest;
import io.nomemory.v1.ExportMessagesRequest;
import io.nomemory.v1.GetIndexStatusRequest;
import io.nomemory.v1.GetNeighborsRequest;
import io.nomemory.v1.HybridSearchRequest;
import io.nomemory.v1.ImportMessagesRequest;
import io.nomemory.v1.LexicalSearchRequest;
import io.nomemory.v1.ListConversationsRequest;
import io.nomemory.v1.ListMessagesRequest;
import io.nomemory.v1.ListUsersRequest;
import io.nomemory.v1.RecallRequest;
import io.nomemory.v1.SemanticSearchRequest;
import io.nomemory.v1.StreamRecallRequest;
import io.nomemory.v1.WriteMessagesRequest;
import java.util.stream.Stream;

/** The call of a step, with its request in JSON. */
record Called(NoMemoryClient client, JsonObject step, String request) {

  /** Make the call and return its response, all responses of a stream, or all items of a listing. */
  Stream<? extends Message> replies() {
    return step.has("all") ? listed() : switch (call()) {
      case "ExportMessages" -> client.exportMessages(parsed(ExportMessagesRequest.newBuilder()).build()).stream();
      case "StreamRecall" -> streamed(parsed(StreamRecallRequest.newBuilder()).build());
      case "Recall" -> Stream.of(recalled(parsed(RecallRequest.newBuilder()).build()));
      case "BuildContext" -> Stream.of(selected(parsed(BuildContextRequest.newBuilder()).build()));
      default -> Stream.of(readOrWritten());
    };
  }

  private Stream<? extends Message> listed() {
    return switch (call()) {
      case "ListMessages" -> client.messages(parsed(ListMessagesRequest.newBuilder()).build()).stream();
      case "LexicalSearch" ->
          client.lexicalHits(parsed(LexicalSearchRequest.newBuilder()).build()).stream().map(LexicalHit::message);
      case "ListConversations" -> client.conversations(parsed(ListConversationsRequest.newBuilder()).build()).stream();
      case "ListUsers" -> client.users(parsed(ListUsersRequest.newBuilder()).build()).stream();
      default -> throw unknown();
    };
  }

  private Message readOrWritten() {
    return switch (call()) {
      case "GetServerInfo" -> client.getServerInfo();
      case "GetIndexStatus" -> client.getIndexStatus(parsed(GetIndexStatusRequest.newBuilder()).build());
      case "WriteMessages" -> client.writeMessages(parsed(WriteMessagesRequest.newBuilder()).build());
      case "ImportMessages" -> client.importMessages(parsed(ImportMessagesRequest.newBuilder()).getMessagesList());
      case "DeleteMessages" -> client.deleteMessages(parsed(DeleteMessagesRequest.newBuilder()).build());
      case "EraseUser" -> client.eraseUser(parsed(EraseUserRequest.newBuilder()).build());
      case "ListMessages" -> client.listMessages(parsed(ListMessagesRequest.newBuilder()).build());
      case "BatchGetMessages" -> client.batchGetMessages(parsed(BatchGetMessagesRequest.newBuilder()).build());
      case "CountMessages" -> client.countMessages(parsed(CountMessagesRequest.newBuilder()).build());
      case "LexicalSearch" -> client.lexicalSearch(parsed(LexicalSearchRequest.newBuilder()).build());
      case "SemanticSearch" -> client.semanticSearch(parsed(SemanticSearchRequest.newBuilder()).build());
      case "HybridSearch" -> client.hybridSearch(parsed(HybridSearchRequest.newBuilder()).build());
      case "GetNeighbors" -> client.getNeighbors(parsed(GetNeighborsRequest.newBuilder()).build());
      default -> throw unknown();
    };
  }

  private Message recalled(RecallRequest question) {
    return user() == null ? client.recall(question) : bound().recall(question);
  }

  private Message selected(BuildContextRequest request) {
    return user() == null ? client.buildContext(request) : bound().buildContext(request);
  }

  private Stream<? extends Message> streamed(StreamRecallRequest question) {
    return (user() == null ? client.streamRecall(question) : bound().streamRecall(question)).stream();
  }

  private BoundRecalls bound() {
    return client.boundTo(user().getAsString());
  }

  private JsonElement user() {
    return step.get("for");
  }

  private String call() {
    return step.get("call").getAsString();
  }

  private <B extends Message.Builder> B parsed(B into) {
    try {
      JsonFormat.parser().merge(request, into);
      return into;
    } catch (InvalidProtocolBufferException wrong) {
      throw new IllegalArgumentException(wrong);
    }
  }

  private IllegalArgumentException unknown() {
    return new IllegalArgumentException("the scenario has a call that this runner does not support: " + call());
  }
}
