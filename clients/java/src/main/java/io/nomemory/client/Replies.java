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
 * The replies of one streaming call, as they arrive. Loop over it in a {@code try}: leaving that cancels the call. A call
 * that is read to its end, or fails, is over anyhow, and one that is forgotten ends with its deadline. It can be read once,
 * by one thread. If another one closes it meanwhile, reading fails with the code {@code CANCELLED}.
 *
 * @param <T> a reply
 */
public final class Replies<T> implements Iterator<T>, Iterable<T>, AutoCloseable {
  private final Context.CancellableContext context = Context.current().withCancellation();
  private final Iterator<T> received;
  private volatile boolean over;

  /** Make the call within a context that can be cancelled. */
  Replies(Supplier<Iterator<T>> call) {
    Context before = context.attach();
    try {
      received = call.get();
    } finally {
      context.detach(before);
    }
  }

  /**
   * Wait for the next reply.
   *
   * @return whether there is one
   * @throws NoMemoryException if the call failed
   */
  @Override
  public boolean hasNext() {
    if (over) {
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
   * Return this, for a loop.
   *
   * @return this
   */
  @Override
  public Iterator<T> iterator() {
    return this;
  }

  /**
   * Return the replies as a stream. Closing it cancels the call.
   *
   * @return a stream that is read as the replies arrive
   */
  public Stream<T> stream() {
    Spliterator<T> replies = Spliterators.spliteratorUnknownSize(this, Spliterator.ORDERED | Spliterator.NONNULL);
    return StreamSupport.stream(replies, false).onClose(this::close);
  }

  /** Cancel the call, unless it is over. */
  @Override
  public void close() {
    over = true;
    context.cancel(null);
  }
}
