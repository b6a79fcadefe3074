package io.nomemory.client;

import io.nomemory.v1.ChatMessage;
import java.util.List;
import java.util.UUID;

/** The ids under which a server stores a batch once, however often it is sent. */
final class RequestIds {
  private RequestIds() {}

  /** Return a fresh id for messages of which some have no id; empty if all have. */
  static String of(List<ChatMessage> messages) {
    boolean named = messages.stream().noneMatch(message -> message.getMessageId().isEmpty());
    return named ? "" : UUID.randomUUID().toString();
  }
}
