package io.nomemory.client;

import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Everything that a listing has, page by page. A page is read when the loop comes to it, and each loop begins anew. What
 * fails is a {@link NoMemoryException}.
 *
 * @param <T> an item
 */
public final class Listing<T> implements Iterable<T> {
  private final String first;
  private final Function<String, Page<T>> read;

  /** Take the cursor to begin with, and what reads the page at a cursor. */
  Listing(String first, Function<String, Page<T>> read) {
    this.first = first;
    this.read = read;
  }

  @Override
  public Iterator<T> iterator() {
    return new Items();
  }

  /**
   * Return the items as a stream, which reads no page before it is needed.
   *
   * @return a stream; it holds nothing that must be closed
   */
  public Stream<T> stream() {
    return StreamSupport.stream(spliterator(), false);
  }

  /** A page's items, and the cursor of the next page; empty: there is none. */
  record Page<T>(List<T> items, String next) {}

  private final class Items implements Iterator<T> {
    private Iterator<T> page = Collections.emptyIterator();
    private String cursor = first; // null once the last page is read

    @Override
    public boolean hasNext() {
      while (!page.hasNext() && cursor != null) {
        Page<T> fresh = read.apply(cursor);
        page = fresh.items().iterator();
        cursor = fresh.next().isEmpty() ? null : fresh.next();
      }
      return page.hasNext();
    }

    @Override
    public T next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      return page.next();
    }
  }
}
