package io.nomemory.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import io.nomemory.v1.ChatMessage;
import io.nomemory.v1.ImportMessagesRequest;
import io.nomemory.v1.ImportMessagesResponse;
import io.nomemory.v1.IngestServiceGrpc;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class ImportsTest {
  private static final ChatMessage NAMED = ChatMessage.newBuilder().setMessageId("1").build();
  private static final ChatMessage LONG = ChatMessage.newBuilder().setContent("x".repeat(200_000)).build();

  private final List<ImportMessagesRequest> imported = new CopyOnWriteArrayList<>();
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

  /** Accept batches, run an action of the test for each, and return the totals at the end. */
  private void taking(Consumer<StreamObserver<ImportMessagesResponse>> atEach) {
    server.requests(IngestServiceGrpc.getImportMessagesMethod(), to -> new StreamObserver<ImportMessagesRequest>() {
      @Override
      public void onNext(ImportMessagesRequest batch) {
        imported.add(batch);
        atEach.accept(to);
      }

      @Override
      public void onError(Throwable gone) {}

      @Override
      public void onCompleted() {
        Scripted.answer(to, ImportMessagesResponse.newBuilder().setCreated(imported.size()).build());
      }
    });
  }

  @Test
  void importIsSplitByNumberAndSize() {
    taking(to -> {});
    Stream<ChatMessage> messages =
        Stream.concat(Stream.generate(() -> NAMED).limit(1_001), Stream.generate(() -> LONG).limit(20));
    assertEquals(3, memory.importMessages(messages::iterator, true).getCreated());
    assertEquals(List.of(1_000, 20, 1), imported.stream().map(ImportMessagesRequest::getMessagesCount).toList());
    assertTrue(imported.stream().allMatch(ImportMessagesRequest::getReplace));
  }

  @Test
  void batchWithoutMessageIdsHasARequestId() {
    taking(to -> {});
    memory.importMessages(Stream.concat(Stream.generate(() -> NAMED).limit(1_000), Stream.of(LONG))::iterator);
    assertEquals("", imported.get(0).getRequestId());
    assertFalse(imported.get(1).getRequestId().isEmpty());
  }

  @Test
  void tooLargeMessageIsSentInItsOwnBatch() {
    taking(to -> {});
    ChatMessage huge = NAMED.toBuilder().setContent("x".repeat(5_000_000)).build();
    memory.importMessages(List.of(NAMED, huge, NAMED));
    assertEquals(List.of(1, 1, 1), imported.stream().map(ImportMessagesRequest::getMessagesCount).toList());
  }

  @Test
  void emptyImportSucceeds() {
    taking(to -> {});
    assertEquals(0, memory.importMessages(List.of()).getCreated());
  }

  @Test
  void importEndsWhenTheServerRejectsIt() {
    taking(to -> to.onError(Status.PERMISSION_DENIED.withDescription("no").asRuntimeException()));
    Iterable<ChatMessage> many = Stream.generate(() -> NAMED).limit(1_000_000)::iterator;
    var failed = assertThrows(NoMemoryException.class, () -> memory.importMessages(many));
    assertEquals(Status.Code.PERMISSION_DENIED, failed.code());
  }

  @Test
  void importRespectsFlowControl() {
    server.requests(IngestServiceGrpc.getImportMessagesMethod(), to -> {
      ((ServerCallStreamObserver<ImportMessagesResponse>) to).disableAutoRequest();
      return new Ignoring();
    });
    AtomicInteger read = new AtomicInteger();
    Iterable<ChatMessage> many =
        Stream.generate(() -> NAMED).limit(50_000).peek(message -> read.incrementAndGet())::iterator;
    var hasty = memory.withTimeout(Duration.ofMillis(500));
    var failed = assertThrows(NoMemoryException.class, () -> hasty.importMessages(many));
    assertEquals(Status.Code.DEADLINE_EXCEEDED, failed.code());
    assertTrue(read.get() <= 5_000, () -> read + " messages were read although the server took none");
  }

  @Test
  void exceptionOfTheIterableCancelsTheImport() throws InterruptedException {
    CountDownLatch cancelled = new CountDownLatch(1);
    server.requests(IngestServiceGrpc.getImportMessagesMethod(), to -> {
      ((ServerCallStreamObserver<ImportMessagesResponse>) to).setOnCancelHandler(cancelled::countDown);
      return new Ignoring();
    });
    var broken = new IllegalStateException("broken");
    Iterable<ChatMessage> messages = Stream.generate(() -> NAMED).limit(1_500).peek(message -> {
      throw broken;
    })::iterator;
    assertSame(broken, assertThrows(IllegalStateException.class, () -> memory.importMessages(messages)));
    assertTrue(cancelled.await(10, TimeUnit.SECONDS), "the import was not canceled");
  }

  @Test
  void interruptCancelsTheImport() {
    taking(to -> {});
    Thread.currentThread().interrupt();
    Iterable<ChatMessage> many = Stream.generate(() -> NAMED).limit(1_000_000)::iterator;
    var failed = assertThrows(NoMemoryException.class, () -> memory.importMessages(many));
    assertEquals(Status.Code.CANCELLED, failed.code());
    assertTrue(Thread.interrupted(), "the thread is no longer interrupted");
  }

  private static final class Ignoring implements StreamObserver<ImportMessagesRequest> {
    @Override
    public void onNext(ImportMessagesRequest batch) {}

    @Override
    public void onError(Throwable gone) {}

    @Override
    public void onCompleted() {}
  }
}
