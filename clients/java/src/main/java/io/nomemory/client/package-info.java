/**
 * The Java client of NoMemory, a memory for chat assistants that can be checked: it keeps only what was said, and every
 * line of an answer quotes its evidence.
 *
 * <p>A {@link io.nomemory.client.NoMemoryClient} has a method for each RPC of the contract, which package
 * {@code io.nomemory.v1} holds, and listings and streams to loop over. What fails is a
 * {@link io.nomemory.client.NoMemoryException}.
 */
package io.nomemory.client;
