package io.nomemory.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.google.rpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.nomemory.v1.ErrorReason;
import java.io.Serializable;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** What a status tells beside its code and its sentence. {@code retryAfter} may be null. */
record ErrorDetails(ErrorReason reason, List<Violation> violations, Map<String, String> metadata, Duration retryAfter)
    implements Serializable {

  static ErrorDetails of(StatusRuntimeException failed) {
    Status status = status(failed);
    ErrorInfo info = detail(status, ErrorInfo.getDefaultInstance());
    BadRequest bad = detail(status, BadRequest.getDefaultInstance());
    RetryInfo retry = detail(status, RetryInfo.getDefaultInstance());
    return new ErrorDetails(
        reason(info.getReason()),
        bad.getFieldViolationsList().stream().map(one -> new Violation(one.getField(), one.getDescription())).toList(),
        Map.copyOf(info.getMetadataMap()),
        retry.hasRetryDelay() ? duration(retry.getRetryDelay()) : null);
  }

  private static Status status(StatusRuntimeException failed) {
    try {
      return StatusProto.fromThrowable(failed);
    } catch (IllegalArgumentException rewritten) { // on the way from the server: its details cannot be trusted
      return Status.getDefaultInstance();
    }
  }

  /** Return the first detail of a kind, or its default instance. */
  private static <T extends Message> T detail(Status status, T none) {
    @SuppressWarnings("unchecked") // a message's class is that of its default instance
    Class<T> kind = (Class<T>) none.getClass();
    return status.getDetailsList().stream().filter(any -> any.is(kind)).flatMap(any -> unpacked(any, kind)).findFirst()
        .orElse(none);
  }

  private static <T extends Message> Stream<T> unpacked(Any any, Class<T> kind) {
    try {
      return Stream.of(any.unpack(kind));
    } catch (InvalidProtocolBufferException broken) {
      return Stream.empty();
    }
  }

  private static ErrorReason reason(String name) {
    return Stream.of(ErrorReason.values()).filter(one -> one.name().equals(name)).findFirst()
        .orElse(ErrorReason.ERROR_REASON_UNSPECIFIED);
  }

  private static Duration duration(com.google.protobuf.Duration delay) {
    return Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
  }
}
