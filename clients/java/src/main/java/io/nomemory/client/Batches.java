package io.nomemory.client;

import io.nomemory.v1.ChatMessage;
import io.nomemory.v1.ImportMessagesRequest;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/** Cuts messages into requests within the server's limits, as they are asked for. */
final class Batches implements Iterator<ImportMessagesRequest> {
  private static final int MESSAGES = 1_000;
  private static final long BYTES = 4_000_000; // well below what a server takes in one request

  private final Iterator<ChatMessage> messages;
  private final boolean replace;
  private ChatMessage held; // the first of the next batch

  Batches(Iterator<ChatMessage> messages, boolean replace) {
    this.messages = messages;
    this.replace = replace;
  }

  @Override
  public boolean hasNext() {
    return held != null || messages.hasNext();
  }

  @Override
  public ImportMessagesRequest next() {
    List<ChatMessage> batch = new ArrayList<>();
    for (long size = 0; batch.size() < MESSAGES && hasNext(); held = null) {
      held = held == null ? messages.next() : held;
      size += held.getSerializedSize();
      if (size > BYTES && !batch.isEmpty()) {
        break;
      }
      batch.add(held);
    }
    return ImportMessagesRequest.newBuilder().addAllMessages(batch).setReplace(replace).setRequestId(RequestIds.of(batch))
        .build();
  }
}
