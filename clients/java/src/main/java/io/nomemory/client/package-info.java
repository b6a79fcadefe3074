/**
 * The Java client of NoMemory, a verifiable memory for chat assistants.
 *
 * <p>A {@link io.nomemory.client.NoMemoryClient} has a method for each RPC, and listings and streams to iterate over. Package
 * {@code io.nomemory.v1} contains the generated types. Failed calls throw a
 * {@link io.nomemory.client.NoMemoryException}.
 */
package io.nomemory.client;
