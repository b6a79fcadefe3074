package io.nomemory.client;

import io.grpc.Metadata;
import java.nio.charset.StandardCharsets;

/** The call metadata with the user of a recall. */
final class UserMetadata {
  private static final Metadata.Key<String> TEXT = Metadata.Key.of("x-user-id", Metadata.ASCII_STRING_MARSHALLER);
  private static final Metadata.Key<byte[]> BYTES = Metadata.Key.of("x-user-id-bin", Metadata.BINARY_BYTE_MARSHALLER);

  private UserMetadata() {}

  static Metadata of(String userId) {
    Metadata headers = new Metadata();
    if (isText(userId)) {
      headers.put(TEXT, userId);
    } else {
      headers.put(BYTES, userId.getBytes(StandardCharsets.UTF_8));
    }
    return headers;
  }

  /** Return whether an id can be sent as text metadata, which must be ASCII and is trimmed. */
  private static boolean isText(String id) {
    return id.equals(id.strip()) && id.chars().allMatch(c -> c >= ' ' && c <= '~');
  }
}
