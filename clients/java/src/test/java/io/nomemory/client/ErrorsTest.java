package io.nomemory.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.google.rpc.Status;
import io.grpc.Metadata;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.nomemory.v1.CountMessagesRequest;
import io.nomemory.v1.ErrorReason;
import io.nomemory.v1.QueryServiceGrpc;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ErrorsTest {
  private static final Metadata.Key<String> REQUEST_ID =
      Metadata.Key.of("x-request-id", Metadata.ASCII_STRING_MARSHALLER);

  /** Fail a call and return the exception of the client. */
  private static NoMemoryException met(StatusRuntimeException failure) throws IOException {
    try (var server = new Scripted(); var memory = server.client()) {
      server.unary(QueryServiceGrpc.getCountMessagesMethod(), (request, to) -> to.onError(failure));
      return assertThrows(
          NoMemoryException.class, () -> memory.countMessages(CountMessagesRequest.getDefaultInstance()));
    }
  }

  private static Status.Builder refusal(String reason) {
    var info = ErrorInfo.newBuilder().setReason(reason).setDomain("nomemory").putMetadata("request_id", "r0");
    return Status.newBuilder().setCode(Code.INVALID_ARGUMENT.value()).setMessage("bad").addDetails(Any.pack(info.build()));
  }

  private static BadRequest.FieldViolation violation(String field, String description) {
    return BadRequest.FieldViolation.newBuilder().setField(field).setDescription(description).build();
  }

  @Test
  void errorHasReasonAndAllViolations() throws IOException {
    var bad = BadRequest.newBuilder().addFieldViolations(violation("user_id", "is required"))
        .addFieldViolations(violation("page_size", "must be at most 500"));
    var retry = RetryInfo.newBuilder().setRetryDelay(com.google.protobuf.Duration.newBuilder().setNanos(500_000_000));
    var status = refusal("ERROR_REASON_INVALID_FIELD").addDetails(Any.pack(bad.build()))
        .addDetails(Any.pack(retry.build())).build();
    Metadata trailers = new Metadata();
    trailers.put(REQUEST_ID, "r1");

    var failed = met(StatusProto.toStatusRuntimeException(status, trailers));

    assertEquals(Code.INVALID_ARGUMENT, failed.code());
    assertEquals(ErrorReason.ERROR_REASON_INVALID_FIELD, failed.reason());
    assertEquals("bad", failed.description());
    var first = new Violation("user_id", "is required");
    assertEquals(List.of(first, new Violation("page_size", "must be at most 500")), failed.violations());
    assertEquals(Optional.of(Duration.ofMillis(500)), failed.retryAfter());
    assertEquals("r1", failed.requestId());
    assertEquals(Map.of("request_id", "r0"), failed.metadata());
    assertEquals("INVALID_ARGUMENT: bad", failed.getMessage());
    assertInstanceOf(StatusRuntimeException.class, failed.getCause());
  }

  @Test
  void unknownReasonIsUnspecified() throws IOException {
    var failed = met(StatusProto.toStatusRuntimeException(refusal("ERROR_REASON_OF_TOMORROW").build()));
    assertEquals(ErrorReason.ERROR_REASON_UNSPECIFIED, failed.reason());
    assertEquals("r0", failed.requestId());
  }

  @Test
  void detailsOfAnotherStatusAreIgnored() throws IOException {
    Metadata trailers = StatusProto.toStatusRuntimeException(refusal("ERROR_REASON_INVALID_FIELD").build()).getTrailers();
    var failed = met(new StatusRuntimeException(io.grpc.Status.INTERNAL, trailers));
    assertEquals(Code.INTERNAL, failed.code());
    assertEquals(ErrorReason.ERROR_REASON_UNSPECIFIED, failed.reason());
  }

  @Test
  void errorWithoutServerHasOnlyACode() throws IOException {
    try (var memory = NoMemoryClient.builder("127.0.0.1:1").attempts(1).build()) {
      var failed = assertThrows(NoMemoryException.class, memory::getServerInfo);
      assertEquals(Code.UNAVAILABLE, failed.code());
      assertTrue(failed.getMessage().contains("Connection refused"), failed.getMessage());
      assertEquals("", failed.requestId());
      assertEquals(Optional.empty(), failed.retryAfter());
      assertTrue(failed.violations().isEmpty());
    }
  }
}
