package io.nomemory.client;

import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.nomemory.v1.ErrorReason;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import javax.net.ssl.SSLException;

/** A call that did not succeed. Its cause is gRPC's own exception. */
public final class NoMemoryException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private static final Metadata.Key<String> REQUEST_ID =
      Metadata.Key.of("x-request-id", Metadata.ASCII_STRING_MARSHALLER);

  /** The code that the call ended with. */
  private final Status.Code code;

  /** What the server, or gRPC, says about it. */
  private final String description;

  /** What the server told beside that. */
  private final ErrorDetails details;

  /** What the log of the server knows the call by. */
  private final String requestId;

  private NoMemoryException(StatusRuntimeException cause, ErrorDetails details) {
    super(text(cause.getStatus()), cause);
    this.code = cause.getStatus().getCode();
    this.description = Optional.ofNullable(cause.getStatus().getDescription()).orElse("");
    this.details = details;
    this.requestId = requestIdIn(cause.getTrailers()).orElse(details.metadata().getOrDefault("request_id", ""));
  }

  static NoMemoryException of(StatusRuntimeException cause) {
    return new NoMemoryException(cause, ErrorDetails.of(cause));
  }

  /**
   * Return the gRPC status code.
   *
   * @return the code
   */
  public Status.Code code() {
    return code;
  }

  /**
   * Return the server's sentence for people, or gRPC's where no server answered.
   *
   * @return the sentence; may be empty
   */
  public String description() {
    return description;
  }

  /**
   * Return the cause. {@code ERROR_REASON_UNSPECIFIED}: the error did not come from a NoMemory server, or from a newer one.
   *
   * @return the reason
   */
  public ErrorReason reason() {
    return details.reason();
  }

  /**
   * Return the bad fields of the request.
   *
   * @return the violations; empty if no field is to blame
   */
  public List<Violation> violations() {
    return details.violations();
  }

  /**
   * Return further facts, as the server sent them.
   *
   * @return the facts by their names
   */
  public Map<String, String> metadata() {
    return details.metadata();
  }

  /**
   * Return what the server's log knows the call by.
   *
   * @return the id; empty where no server answered
   */
  public String requestId() {
    return requestId;
  }

  /**
   * Return when to try again.
   *
   * @return the time to wait, where the server suggests one
   */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(details.retryAfter());
  }

  private static Optional<String> requestIdIn(Metadata trailers) {
    return Optional.ofNullable(trailers).map(all -> all.get(REQUEST_ID));
  }

  private static String text(Status status) {
    String sentence = status.getDescription() == null ? "" : ": " + status.getDescription();
    if (status.getCause() instanceof IOException fault) { // there is no connection, and gRPC's sentence does not tell why
      return status.getCode() + sentence.lines().findFirst().orElse("") + " (" + reason(fault) + ")";
    }
    return status.getCode() + sentence;
  }

  /** Return the words of a fault; those of TLS stand in its first cause only. */
  private static String reason(IOException fault) {
    Throwable told = fault;
    while (fault instanceof SSLException && told.getCause() != null) {
      told = told.getCause();
    }
    return told.getMessage();
  }
}
