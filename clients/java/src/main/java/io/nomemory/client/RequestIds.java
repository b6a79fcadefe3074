package io.nomemory.client;

import io.nomemory.v1.ChatMessage;
import java.util.List;
import java.util.UUID;

/** Request ids, with which the server detects retries of a write. */
final class RequestIds {
  private RequestIds() {}

  /** Return a new id if a message has no id; otherwise an empty string. */
  static String of(List<ChatMessage> messages) {
    boolean haveIds = messages.stream().noneMatch(message -> message.getMessageId().isEmpty());
    return haveIds ? "" : UUID.randomUUID().toString();
  }
}
