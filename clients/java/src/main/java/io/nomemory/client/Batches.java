package io.nomemory.client;

import io.nomemory.v1.ChatMessage;
import io.nomemory.v1.ImportMessagesRequest;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/** Splits messages into requests within the server's limits. The messages are read lazily. */
final class Batches implements Iterator<ImportMessagesRequest> {
  private static final int MESSAGES = 1_000;
  private static final long BYTES = 4_000_000; // well below the server's limit on the request size

  private final Iterator<ChatMessage> messages;
  private final boolean replace;
  private ChatMessage pending; // the first message of the next batch

  Batches(Iterator<ChatMessage> messages, boolean replace) {
    this.messages = messages;
    this.replace = replace;
  }

  @Override
  public boolean hasNext() {
    return pending != null || messages.hasNext();
  }

  @Override
  public ImportMessagesRequest next() {
    List<ChatMessage> batch = new ArrayList<>();
    for (long size = 0; batch.size() < MESSAGES && hasNext(); pending = null) {
      pending = pending == null ? messages.next() : pending;
      size += pending.getSerializedSize();
      if (size > BYTES && !batch.isEmpty()) {
        break;
      }
      batch.add(pending);
    }
    return ImportMessagesRequest.newBuilder().addAllMessages(batch).setReplace(replace).setRequestId(RequestIds.of(batch))
        .build();
  }
}
