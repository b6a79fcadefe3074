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

/** The details of a gRPC status. {@code retryAfter} may be null. */
record ErrorDetails(ErrorReason reason, List<Violation> violations, Map<String, String> metadata, Duration retryAfter)
    implements Serializable {

  static ErrorDetails of(StatusRuntimeException failed) {
    Status status = status(failed);
    ErrorInfo info = detail(status, ErrorInfo.getDefaultInstance());
    BadRequest bad = detail(status, BadRequest.getDefaultInstance());
    RetryInfo retry = detail(status, RetryInfo.getDefaultInstance());
    return new ErrorDetails(
        reason(info.getReason()),
        bad.getFieldViolationsList().stream().map(field -> new Violation(field.getField(), field.getDescription())).toList(),
        Map.copyOf(info.getMetadataMap()),
        retry.hasRetryDelay() ? duration(retry.getRetryDelay()) : null);
  }

  private static Status status(StatusRuntimeException failed) {
    try {
      return StatusProto.fromThrowable(failed);
    } catch (IllegalArgumentException rewritten) { // the details do not match the status: a proxy changed the status
      return Status.getDefaultInstance();
    }
  }

  /** Return the first detail of a type, or the default instance. */
  private static <T extends Message> T detail(Status status, T defaultInstance) {
    @SuppressWarnings("unchecked") // the default instance has the class of the message
    Class<T> kind = (Class<T>) defaultInstance.getClass();
    return status.getDetailsList().stream().filter(any -> any.is(kind)).flatMap(any -> unpacked(any, kind)).findFirst()
        .orElse(defaultInstance);
  }

  private static <T extends Message> Stream<T> unpacked(Any any, Class<T> kind) {
    try {
      return Stream.of(any.unpack(kind));
    } catch (InvalidProtocolBufferException broken) {
      return Stream.empty();
    }
  }

  private static ErrorReason reason(String name) {
    return Stream.of(ErrorReason.values()).filter(reason -> reason.name().equals(name)).findFirst()
        .orElse(ErrorReason.ERROR_REASON_UNSPECIFIED);
  }

  private static Duration duration(com.google.protobuf.Duration delay) {
    return Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
  }
}
