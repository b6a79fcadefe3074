package io.nomemory.client;

import io.grpc.Context;
import io.grpc.StatusRuntimeException;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.function.Supplier;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * The responses of a streaming call, as they arrive. Use it in a {@code try} statement: closing it cancels the call. A stream
 * that is not closed ends with the call or at its deadline. It can be read once, by one thread. If another thread closes it,
 * reading fails with the code {@code CANCELLED}.
 *
 * @param <T> the type of the responses
 */
public final class Replies<T> implements Iterator<T>, Iterable<T>, AutoCloseable {
  private final Context.CancellableContext context = Context.current().withCancellation();
  private final Iterator<T> received;
  private volatile boolean ended;

  /** Make the call in a cancellable context. */
  Replies(Supplier<Iterator<T>> call) {
    Context before = context.attach();
    try {
      received = call.get();
    } finally {
      context.detach(before);
    }
  }

  /**
   * Wait for the next response.
   *
   * @return whether there is a next response
   * @throws NoMemoryException if the call failed
   */
  @Override
  public boolean hasNext() {
    if (ended) {
      return false;
    }
    try {
      boolean more = received.hasNext();
      if (!more) {
        close();
      }
      return more;
    } catch (StatusRuntimeException failed) {
      close();
      throw NoMemoryException.of(failed);
    }
  }

  @Override
  public T next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    return received.next();
  }

  /**
   * Return this stream.
   *
   * @return this
   */
  @Override
  public Iterator<T> iterator() {
    return this;
  }

  /**
   * Return the responses as a Java stream. Closing it cancels the call.
   *
   * @return a stream of the responses as they arrive
   */
  public Stream<T> stream() {
    Spliterator<T> replies = Spliterators.spliteratorUnknownSize(this, Spliterator.ORDERED | Spliterator.NONNULL);
    return StreamSupport.stream(replies, false).onClose(this::close);
  }

  /** Cancel the call if it has not ended. */
  @Override
  public void close() {
    ended = true;
    context.cancel(null);
  }
}
