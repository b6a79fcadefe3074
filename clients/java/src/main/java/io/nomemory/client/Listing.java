package io.nomemory.client;

import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * The items of all pages of a listing. A page is read when it is needed. Each iteration starts from the beginning. Reading a
 * page throws a {@link NoMemoryException} if the call fails.
 *
 * @param <T> the type of the items
 */
public final class Listing<T> implements Iterable<T> {
  private final String startCursor;
  private final Function<String, Page<T>> read;

  /** Take the first cursor, and a function that reads the page at a cursor. */
  Listing(String startCursor, Function<String, Page<T>> read) {
    this.startCursor = startCursor;
    this.read = read;
  }

  @Override
  public Iterator<T> iterator() {
    return new Items();
  }

  /**
   * Return the items as a stream. A page is read when it is needed.
   *
   * @return a stream that need not be closed
   */
  public Stream<T> stream() {
    return StreamSupport.stream(spliterator(), false);
  }

  /** The items of a page, and the cursor of the next page; empty after the last page. */
  record Page<T>(List<T> items, String next) {}

  private final class Items implements Iterator<T> {
    private Iterator<T> page = Collections.emptyIterator();
    private String cursor = startCursor; // null after the last page

    @Override
    public boolean hasNext() {
      while (!page.hasNext() && cursor != null) {
        Page<T> nextPage = read.apply(cursor);
        page = nextPage.items().iterator();
        cursor = nextPage.next().isEmpty() ? null : nextPage.next();
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
