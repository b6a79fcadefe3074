package io.nomemory.client;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.ServiceDescriptor;
import io.grpc.Status;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.nomemory.v1.CountMessagesRequest;
import io.nomemory.v1.CountMessagesResponse;
import io.nomemory.v1.IngestServiceGrpc;
import io.nomemory.v1.QueryServiceGrpc;
import io.nomemory.v1.RecallServiceGrpc;
import io.nomemory.v1.ServerServiceGrpc;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ClientTest {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  private static final CountMessagesRequest COUNT = CountMessagesRequest.getDefaultInstance();

  private Scripted server;

  @BeforeEach
  void start() throws IOException {
    server = new Scripted();
    server.unary(QueryServiceGrpc.getCountMessagesMethod(),
        (request, to) -> Scripted.answer(to, CountMessagesResponse.newBuilder().setCount(7).build()));
  }

  @AfterEach
  void stop() {
    server.close();
  }

  private void neverAnswers() {
    server.unary(QueryServiceGrpc.getCountMessagesMethod(), (request, to) -> {});
  }

  private List<String> authorizations() {
    return server.asked.stream().map(headers -> String.valueOf(headers.get(AUTHORIZATION))).toList();
  }

  @Test
  void everyRpcHasAMethod() {
    Set<String> ours = Arrays.stream(NoMemoryClient.class.getMethods()).map(one -> one.getName().toLowerCase())
        .collect(Collectors.toSet());
    Stream.of(QueryServiceGrpc.getServiceDescriptor(), IngestServiceGrpc.getServiceDescriptor(),
            RecallServiceGrpc.getServiceDescriptor(), ServerServiceGrpc.getServiceDescriptor())
        .map(ServiceDescriptor::getMethods).flatMap(methods -> methods.stream()).map(MethodDescriptor::getBareMethodName)
        .forEach(rpc -> assertTrue(ours.contains(rpc.toLowerCase()), rpc));
  }

  @Test
  void unansweredCallEndsAfterClientTimeout() {
    neverAnswers();
    try (var memory = server.client(as -> as.timeout(Duration.ofMillis(50)))) {
      var failed = assertThrows(NoMemoryException.class, () -> memory.countMessages(COUNT));
      assertEquals(Status.Code.DEADLINE_EXCEEDED, failed.code());
    }
  }

  @Test
  void callTimeoutOverridesClientTimeout() {
    neverAnswers();
    try (var memory = server.client()) {
      var hasty = memory.withTimeout(Duration.ofMillis(50));
      var failed = assertThrows(NoMemoryException.class, () -> hasty.countMessages(COUNT));
      assertEquals(Status.Code.DEADLINE_EXCEEDED, failed.code());
    }
  }

  @Test
  void callEndsWithGrpcContext() {
    neverAnswers();
    var clock = Executors.newSingleThreadScheduledExecutor();
    try (var memory = server.client();
        var context = Context.current().withDeadlineAfter(50, TimeUnit.MILLISECONDS, clock)) {
      context.run(() -> {
        var failed = assertThrows(NoMemoryException.class, () -> memory.countMessages(COUNT));
        assertEquals(Status.Code.DEADLINE_EXCEEDED, failed.code());
      });
    } finally {
      clock.shutdownNow();
    }
  }

  @Test
  void closedClientMakesNoCalls() {
    var memory = server.client();
    memory.close();
    assertThrows(NoMemoryException.class, () -> memory.countMessages(COUNT));
    assertTrue(server.asked.isEmpty());
  }

  @Test
  void tokenSupplierIsCalledForEachCall() {
    AtomicInteger number = new AtomicInteger();
    try (var memory = server.client(as -> as.token(() -> "t" + number.incrementAndGet()))) {
      memory.countMessages(COUNT);
      memory.countMessages(COUNT);
    }
    assertEquals(List.of("Bearer t1", "Bearer t2"), authorizations());
  }

  @Test
  void emptyTokenIsNotSent() {
    try (var memory = server.client(as -> as.token(""))) {
      memory.countMessages(COUNT);
    }
    assertEquals(List.of("null"), authorizations());
  }

  @Test
  void failingTokenSupplierFailsTheCall() {
    var broken = new IllegalStateException("broken");
    try (var memory = server.client(as -> as.token(() -> {
      throw broken;
    }))) {
      var failed = assertThrows(NoMemoryException.class, () -> memory.countMessages(COUNT));
      assertEquals(Status.Code.UNAUTHENTICATED, failed.code());
      assertSame(broken, failed.getCause().getCause());
    }
    assertTrue(server.asked.isEmpty());
  }

  @Test
  void generatedStubsCanUseTheChannel() {
    try (var memory = server.client(as -> as.token("t"))) {
      assertEquals(7, QueryServiceGrpc.newBlockingStub(memory.channel()).countMessages(COUNT).getCount());
    }
    assertEquals(List.of("Bearer t"), authorizations());
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 6})
  void invalidAttemptsAreRejected(int attempts) {
    var builder = NoMemoryClient.builder("127.0.0.1:1");
    assertThrows(IllegalArgumentException.class, () -> builder.attempts(attempts));
  }

  @ParameterizedTest
  @ValueSource(strings = {"PT0S", "PT-1S"})
  void invalidTimeoutsAreRejected(Duration timeout) {
    assertThrows(IllegalArgumentException.class, () -> server.client(as -> as.timeout(timeout)));
    assertThrows(IllegalArgumentException.class, () -> server.client(as -> as.bulkTimeout(timeout)));
  }

  @Test
  void longestDurationIsAValidTimeout() {
    try (var memory = server.client(as -> as.timeout(Duration.ofSeconds(Long.MAX_VALUE)))) {
      assertEquals(7, memory.countMessages(COUNT).getCount());
    }
  }

  @Test
  void unreadableTlsFileIsReported() {
    var builder = NoMemoryClient.builder("127.0.0.1:1");
    assertThrows(UncheckedIOException.class, () -> builder.tlsAuthorities(Path.of("no", "such", "file")));
    assertThrows(UncheckedIOException.class, () -> builder.tlsIdentity(Path.of("no"), Path.of("file")));
  }

  @Test
  void tlsWithAChannelBuilderIsRejected() {
    var builder = NoMemoryClient.builder(InProcessChannelBuilder.forName("x")).tls();
    assertThrows(IllegalStateException.class, builder::build);
    assertDoesNotThrow(() -> NoMemoryClient.builder("127.0.0.1:1").tls().build().close());
  }

  @Test
  void timestampsKeepNanoseconds() {
    Instant before1970 = Instant.parse("1969-12-31T23:59:59.000000001Z");
    assertEquals(before1970, Instants.instant(Instants.timestamp(before1970)));
    assertFalse(Instants.timestamp(before1970).getNanos() < 0);
  }
}
