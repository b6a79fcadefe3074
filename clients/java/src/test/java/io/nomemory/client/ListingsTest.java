package io.nomemory.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import io.nomemory.v1.ChatMessage;
import io.nomemory.v1.Highlight;
import io.nomemory.v1.LexicalSearchRequest;
import io.nomemory.v1.LexicalSearchResponse;
import io.nomemory.v1.ListMessagesRequest;
import io.nomemory.v1.ListMessagesResponse;
import io.nomemory.v1.MessageScore;
import io.nomemory.v1.QueryServiceGrpc;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class ListingsTest {
  private static final ListMessagesRequest ALL = ListMessagesRequest.newBuilder().setUserId("ann").build();

  private Scripted server;
  private NoMemoryClient memory;

  @BeforeEach
  void start() throws IOException {
    server = new Scripted();
    server.unary(QueryServiceGrpc.getListMessagesMethod(), ListingsTest::twoOfFive);
    memory = server.client();
  }

  @AfterEach
  void stop() {
    memory.close();
    server.close();
  }

  /** Return messages 1 to 5 in pages of two. */
  private static void twoOfFive(ListMessagesRequest request, StreamObserver<ListMessagesResponse> to) {
    int first = request.getCursor().isEmpty() ? 1 : Integer.parseInt(request.getCursor().substring(1));
    ListMessagesResponse.Builder page = ListMessagesResponse.newBuilder();
    for (int number = first; number < first + 2 && number <= 5; number++) {
      page.addItems(ChatMessage.newBuilder().setMessageId(Integer.toString(number)));
    }
    Scripted.answer(to, page.setNextCursor(first + 2 <= 5 ? "c" + (first + 2) : "").build());
  }

  @Test
  void listingReadsAllPagesAndCanBeReadAgain() {
    Listing<ChatMessage> listing = memory.messages(ALL);
    for (int time = 0; time < 2; time++) {
      List<String> got = new ArrayList<>();
      for (ChatMessage message : listing) {
        got.add(message.getMessageId());
      }
      assertEquals(List.of("1", "2", "3", "4", "5"), got);
    }
  }

  @Test
  void listingStartsAtTheCursorOfTheRequest() {
    var rest = memory.messages(ALL.toBuilder().setCursor("c4").build());
    assertEquals(List.of("4", "5"), rest.stream().map(ChatMessage::getMessageId).toList());
  }

  @Test
  void pagesAreReadLazily() {
    assertEquals(2, memory.messages(ALL).stream().limit(2).count());
    assertEquals(1, server.asked.size());
  }

  @Test
  void iteratorEndsAfterTheLastItem() {
    var left = memory.messages(ALL.toBuilder().setCursor("c5").build()).iterator();
    assertEquals("5", left.next().getMessageId());
    assertThrows(NoSuchElementException.class, left::next);
  }

  @Test
  void iteratorThrowsWhenAPageFails() {
    server.unary(QueryServiceGrpc.getListMessagesMethod(), (request, to) -> {
      if (request.getCursor().isEmpty()) {
        twoOfFive(request, to);
      } else {
        to.onError(Status.PERMISSION_DENIED.asRuntimeException());
      }
    });
    List<String> got = new ArrayList<>();
    var failed = assertThrows(
        NoMemoryException.class, () -> memory.messages(ALL).forEach(message -> got.add(message.getMessageId())));
    assertEquals(Status.Code.PERMISSION_DENIED, failed.code());
    assertEquals(List.of("1", "2"), got);
  }

  @Test
  void hitHasScoreAndHighlight() {
    var plain = LexicalSearchResponse.newBuilder().addItems(ChatMessage.newBuilder().setMessageId("m"))
        .addScores(MessageScore.newBuilder().setMessageId("m").setScore(2)).build();
    var highlight = Highlight.newBuilder().setMessageId("m").build();
    server.unary(QueryServiceGrpc.getLexicalSearchMethod(), (request, to) ->
        Scripted.answer(to, request.hasHighlight() ? plain.toBuilder().addHighlights(highlight).build() : plain));
    var request = LexicalSearchRequest.newBuilder();
    var hit = memory.lexicalHits(request.build()).iterator().next();
    assertEquals(new LexicalHit(plain.getItems(0), 2, Optional.empty()), hit);
    request.getHighlightBuilder().setSnippetChars(9);
    assertEquals(Optional.of(highlight), memory.lexicalHits(request.build()).iterator().next().highlight());
  }
}
