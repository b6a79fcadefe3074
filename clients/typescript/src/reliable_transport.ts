import type {
  DescMessage,
  DescMethodStreaming,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import type { StreamResponse, Transport, UnaryResponse } from "@connectrpc/connect";
import { RetryBudget } from "./backoff.js";
import { NoMemoryError } from "./errors.js";
import { defaults, type ClientOptions } from "./options.js";

/**
 * Adds credentials, deadlines, retries and error conversion to a transport.
 *
 * All RPCs can be retried: reads and recalls have no side effects, deletions and writes of messages with ids are
 * idempotent, and other writes have a request id. A stream is not retried after its first response. An import is not
 * retried, because its messages can be read only once.
 */
export class ReliableTransport implements Transport {
  readonly #inner: Transport;
  readonly #options: ClientOptions;

  constructor(inner: Transport, options: ClientOptions) {
    this.#inner = inner;
    this.#options = options;
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: HeadersInit | undefined,
    input: MessageInitShape<I>,
  ): Promise<UnaryResponse<I, O>> {
    const budget = this.#retryBudget(timeoutMs, this.#options.timeoutMs ?? defaults.timeoutMs);
    for (;;) {
      try {
        const headers = await this.#authorized(header);
        return await this.#inner.unary(method, signal, budget.remainingMs, headers, input);
      } catch (thrown) {
        await budget.waitAfter(thrown, signal);
      }
    }
  }

  async stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O>,
    signal: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: HeadersInit | undefined,
    input: AsyncIterable<MessageInitShape<I>>,
  ): Promise<StreamResponse<I, O>> {
    const bulkTimeoutMs = this.#options.bulkTimeoutMs ?? defaults.bulkTimeoutMs;
    const budget = this.#retryBudget(timeoutMs, bulkTimeoutMs);
    try {
      const headers = await this.#authorized(header);
      const response = await this.#inner.stream(method, signal, budget.remainingMs, headers, input);
      return { ...response, message: withErrorsConverted(response.message) };
    } catch (thrown) {
      throw NoMemoryError.from(thrown);
    }
  }

  /** Yield the responses to one request. Closing the iterator cancels the call. */
  async *replies<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O> & { methodKind: "server_streaming" },
    signal: AbortSignal | undefined,
    timeoutMs: number,
    header: HeadersInit | undefined,
    request: MessageInitShape<I>,
  ): AsyncGenerator<MessageShape<O>> {
    const budget = this.#retryBudget(timeoutMs, timeoutMs);
    const closing = new AbortController();
    const combinedSignal = signal ? AbortSignal.any([signal, closing.signal]) : closing.signal;
    for (let arrived = false; ; ) {
      let replies: AsyncIterator<MessageShape<O>> | undefined;
      try {
        const headers = await this.#authorized(header);
        const opened = await this.#inner.stream(method, combinedSignal, budget.remainingMs, headers, once(request));
        replies = opened.message[Symbol.asyncIterator]();
        for (let next = await replies.next(); !next.done; next = await replies.next()) {
          arrived = true;
          yield next.value;
        }
        return;
      } catch (thrown) {
        if (arrived) {
          throw NoMemoryError.from(thrown);
        }
        await budget.waitAfter(thrown, signal);
      } finally {
        if (arrived) {
          closing.abort();
          replies?.next().catch(() => {}); // makes the transport notice the abort and stop its timer
        }
      }
    }
  }

  #retryBudget(timeoutMs: number | undefined, defaultMs: number): RetryBudget {
    return new RetryBudget(timeoutMs ?? defaultMs, this.#options.attempts ?? defaults.attempts);
  }

  async #authorized(header: HeadersInit | undefined): Promise<Headers> {
    const headers = new Headers(header);
    const { token } = this.#options;
    const bearer = typeof token === "function" ? await token() : token;
    if (bearer) {
      headers.set("authorization", `Bearer ${bearer}`);
    }
    return headers;
  }
}

async function* withErrorsConverted<Reply>(replies: AsyncIterable<Reply>): AsyncGenerator<Reply> {
  try {
    yield* replies;
  } catch (thrown) {
    throw NoMemoryError.from(thrown);
  }
}

async function* once<Value>(value: Value): AsyncGenerator<Value> {
  yield value;
}
