package io.nomemory.client;

import java.io.Serializable;

/**
 * An invalid field of a request.
 *
 * @param field the path of the field, such as {@code messages[0].content}
 * @param description the problem; it never quotes message content
 */
public record Violation(String field, String description) implements Serializable {
  @Override
  public String toString() {
    return field + ": " + description;
  }
}
