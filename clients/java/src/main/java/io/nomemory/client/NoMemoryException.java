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

/** The error of a failed call. Its cause is the gRPC exception. */
public final class NoMemoryException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private static final Metadata.Key<String> REQUEST_ID =
      Metadata.Key.of("x-request-id", Metadata.ASCII_STRING_MARSHALLER);

  /** The gRPC status code. */
  private final Status.Code code;

  /** The message of the server or of gRPC. */
  private final String description;

  /** The details of the status. */
  private final ErrorDetails details;

  /** The id of the call in the server's log. */
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
   * Return the message of the server, or of gRPC if the server did not respond.
   *
   * @return the message; may be empty
   */
  public String description() {
    return description;
  }

  /**
   * Return the cause. {@code ERROR_REASON_UNSPECIFIED}: not sent by a NoMemory server, or unknown to this client.
   *
   * @return the reason
   */
  public ErrorReason reason() {
    return details.reason();
  }

  /**
   * Return the invalid fields of the request.
   *
   * @return the violations; may be empty
   */
  public List<Violation> violations() {
    return details.violations();
  }

  /**
   * Return additional details from the server.
   *
   * @return the details by name
   */
  public Map<String, String> metadata() {
    return details.metadata();
  }

  /**
   * Return the id of the call in the server's log.
   *
   * @return the id; empty if the server did not respond
   */
  public String requestId() {
    return requestId;
  }

  /**
   * Return the delay before a retry.
   *
   * @return the delay, if the server requests one
   */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(details.retryAfter());
  }

  private static Optional<String> requestIdIn(Metadata trailers) {
    return Optional.ofNullable(trailers).map(metadata -> metadata.get(REQUEST_ID));
  }

  private static String text(Status status) {
    String suffix = status.getDescription() == null ? "" : ": " + status.getDescription();
    if (status.getCause() instanceof IOException fault) { // connection failures: gRPC's description lacks the cause
      return status.getCode() + suffix.lines().findFirst().orElse("") + " (" + reason(fault) + ")";
    }
    return status.getCode() + suffix;
  }

  /** Return the message of an I/O error. The message of a TLS error is in its root cause. */
  private static String reason(IOException fault) {
    Throwable cause = fault;
    while (fault instanceof SSLException && cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause.getMessage();
  }
}
