package io.nomemory.client;

import java.io.Serializable;

/**
 * One bad field of a request.
 *
 * @param field the path of the field, such as {@code messages[0].content}
 * @param description what is wrong with it; it never quotes content
 */
public record Violation(String field, String description) implements Serializable {
  @Override
  public String toString() {
    return field + ": " + description;
  }
}
