package io.nomemory.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.grpc.Status;
import io.nomemory.v1.ChatMessage;
import io.nomemory.v1.IngestServiceGrpc;
import io.nomemory.v1.WriteMessagesRequest;
import io.nomemory.v1.WriteMessagesResponse;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class WritesTest {
  private static final ChatMessage NAMED = ChatMessage.newBuilder().setMessageId("1").build();
  private static final ChatMessage NAMELESS = ChatMessage.newBuilder().setContent("no id").build();

  private final List<WriteMessagesRequest> writes = new CopyOnWriteArrayList<>();
  private int refused; // the number of writes that the server rejects

  private Scripted server;

  @BeforeEach
  void start() throws IOException {
    server = new Scripted();
    writing(server);
  }

  private void writing(Scripted server) {
    server.unary(IngestServiceGrpc.getWriteMessagesMethod(), (request, to) -> {
      writes.add(request);
      if (writes.size() <= refused) {
        to.onError(Scripted.BUSY);
      } else {
        Scripted.answer(to, WriteMessagesResponse.newBuilder().setWriteToken("w").build());
      }
    });
  }

  @AfterEach
  void stop() {
    server.close();
  }

  private static WriteMessagesRequest write(ChatMessage... messages) {
    return WriteMessagesRequest.newBuilder().addAllMessages(List.of(messages)).build();
  }

  @Test
  void retriedWriteKeepsItsRequestId() {
    refused = 2;
    try (var memory = server.client()) {
      assertEquals("w", memory.writeMessages(write(NAMED, NAMELESS)).getWriteToken());
    }
    assertEquals(3, writes.size());
    assertFalse(writes.get(0).getRequestId().isEmpty());
    assertEquals(1, writes.stream().map(WriteMessagesRequest::getRequestId).distinct().count());
  }

  @Test
  void eachWriteHasANewRequestId() {
    try (var memory = server.client()) {
      memory.writeMessages(write(NAMELESS));
      memory.writeMessages(write(NAMELESS));
    }
    assertEquals(2, writes.stream().map(WriteMessagesRequest::getRequestId).distinct().count());
  }

  @Test
  void writeWithIdsGetsNoRequestIdAndAGivenOneIsKept() {
    try (var memory = server.client()) {
      memory.writeMessages(write(NAMED));
      memory.writeMessages(write(NAMELESS).toBuilder().setRequestId("mine").build());
    }
    assertEquals(List.of("", "mine"), writes.stream().map(WriteMessagesRequest::getRequestId).toList());
  }

  @Test
  void largestWriteIsRetried() throws IOException {
    refused = 1;
    ChatMessage large = NAMED.toBuilder().setContent("x".repeat(15_000_000)).build();
    try (var network = new Scripted(16 << 20); var memory = network.client()) {
      writing(network);
      memory.writeMessages(write(large));
    }
    assertEquals(2, writes.size());
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2})
  void attemptsAreBounded(int attempts) {
    refused = 9;
    try (var memory = server.client(as -> as.attempts(attempts))) {
      var failed = assertThrows(NoMemoryException.class, () -> memory.writeMessages(write(NAMED)));
      assertEquals(Status.Code.UNAVAILABLE, failed.code());
    }
    assertEquals(attempts, writes.size());
  }
}
