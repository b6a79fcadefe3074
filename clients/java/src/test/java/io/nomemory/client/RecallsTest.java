package io.nomemory.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.stub.ServerCallStreamObserver;
import io.nomemory.v1.RecallRequest;
import io.nomemory.v1.RecallResponse;
import io.nomemory.v1.RecallServiceGrpc;
import io.nomemory.v1.RecallStep;
import io.nomemory.v1.StreamRecallRequest;
import io.nomemory.v1.StreamRecallResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RecallsTest {
  private static final Metadata.Key<String> USER = Metadata.Key.of("x-user-id", Metadata.ASCII_STRING_MARSHALLER);
  private static final Metadata.Key<byte[]> USER_BYTES =
      Metadata.Key.of("x-user-id-bin", Metadata.BINARY_BYTE_MARSHALLER);
  private static final RecallRequest QUESTION = RecallRequest.newBuilder().setQuestion("Who am I?").build();
  private static final StreamRecallRequest STREAMED = StreamRecallRequest.newBuilder().setQuestion("Who am I?").build();
  private static final StreamRecallResponse STEP =
      StreamRecallResponse.newBuilder().setStep(RecallStep.newBuilder().setTool("hybrid_search")).build();

  private Scripted server;
  private NoMemoryClient memory;

  @BeforeEach
  void start() throws IOException {
    server = new Scripted();
    memory = server.client();
  }

  @AfterEach
  void stop() {
    memory.close();
    server.close();
  }

  private void recalls() {
    server.unary(RecallServiceGrpc.getRecallMethod(),
        (request, to) -> Scripted.answer(to, RecallResponse.getDefaultInstance()));
  }

  /** Stream one step, then wait for the cancellation. Return a latch that it counts down. */
  private CountDownLatch endlessRecall() {
    CountDownLatch cancelled = new CountDownLatch(1);
    server.replies(RecallServiceGrpc.getStreamRecallMethod(), (request, to) -> {
      ((ServerCallStreamObserver<StreamRecallResponse>) to).setOnCancelHandler(cancelled::countDown);
      to.onNext(STEP);
    });
    return cancelled;
  }

  @Test
  void boundRecallSendsTheUser() {
    recalls();
    memory.boundTo("lin").recall(QUESTION);
    assertEquals("lin", server.asked.get(0).get(USER));
    memory.recall(QUESTION);
    assertFalse(server.asked.get(1).containsKey(USER), "a recall that is not bound must not send a user");
  }

  @ParameterizedTest
  @ValueSource(strings = {"王小明", " lin", "lin\u007f"})
  void idThatIsNotTextIsSentAsBinary(String user) {
    recalls();
    memory.boundTo(user).recall(QUESTION);
    assertEquals(user, new String(server.asked.get(0).get(USER_BYTES), StandardCharsets.UTF_8));
    assertFalse(server.asked.get(0).containsKey(USER));
  }

  @Test
  void streamedRecallSendsQuestionAndUser() {
    List<StreamRecallRequest> questions = new ArrayList<>();
    server.replies(RecallServiceGrpc.getStreamRecallMethod(), (request, to) -> {
      questions.add(request);
      Scripted.answer(to, STEP);
    });
    try (var events = memory.boundTo("lin").streamRecall(STREAMED)) {
      assertEquals(List.of(STEP), events.stream().toList());
    }
    assertEquals(List.of(STREAMED), questions);
    assertEquals("lin", server.asked.get(0).get(USER));
  }

  @Test
  void streamYieldsStepsAndThenTheError() {
    server.replies(RecallServiceGrpc.getStreamRecallMethod(), (request, to) -> {
      to.onNext(STEP);
      to.onError(Status.INTERNAL.withDescription("broken").asRuntimeException());
    });
    var events = memory.streamRecall(STREAMED);
    assertEquals(STEP, events.next());
    assertEquals(Status.Code.INTERNAL, assertThrows(NoMemoryException.class, events::next).code());
    assertFalse(events.hasNext());
  }

  @Test
  void streamIsRetriedBeforeItsFirstResponse() {
    server.replies(RecallServiceGrpc.getStreamRecallMethod(), (request, to) -> {
      if (server.asked.size() == 1) {
        to.onError(Scripted.BUSY);
      } else {
        Scripted.answer(to, STEP);
      }
    });
    assertEquals(1, memory.streamRecall(STREAMED).stream().count());
    assertEquals(2, server.asked.size());
  }

  @Test
  void streamIsNotRetriedAfterItsFirstResponse() {
    server.replies(RecallServiceGrpc.getStreamRecallMethod(), (request, to) -> {
      to.onNext(STEP);
      to.onError(Scripted.BUSY);
    });
    var failed = assertThrows(NoMemoryException.class, () -> memory.streamRecall(STREAMED).stream().count());
    assertEquals(Status.Code.UNAVAILABLE, failed.code());
    assertEquals(1, server.asked.size());
  }

  @Test
  void leavingTheTryStatementCancelsTheRecall() throws InterruptedException {
    var cancelled = endlessRecall();
    try (var events = memory.boundTo("lin").streamRecall(STREAMED)) {
      assertEquals(STEP, events.next());
    }
    assertTrue(cancelled.await(10, TimeUnit.SECONDS), "the recall was not canceled");
  }

  @Test
  void closingTheJavaStreamCancelsTheRecall() throws InterruptedException {
    var cancelled = endlessRecall();
    try (var events = memory.streamRecall(STREAMED).stream()) {
      assertEquals(STEP, events.findFirst().orElseThrow());
    }
    assertTrue(cancelled.await(10, TimeUnit.SECONDS), "the recall was not canceled");
  }

  @Test
  void closedStreamHasNoMoreElements() {
    endlessRecall();
    var events = memory.streamRecall(STREAMED);
    events.close();
    assertFalse(events.hasNext());
    assertThrows(NoSuchElementException.class, events::next);
  }
}
