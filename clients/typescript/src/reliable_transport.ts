import type {
  DescMessage,
  DescMethodStreaming,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import type { StreamResponse, Transport, UnaryResponse } from "@connectrpc/connect";
import { Patience } from "./backoff.js";
import { NoMemoryError } from "./errors.js";
import { defaults, type ClientOptions } from "./options.js";

/**
 * Adds to a transport of any protocol what every call needs: the credential, a deadline, retries, our errors.
 *
 * Every call of the contract may be sent again: reads and recalls change nothing, deletions and writes of messages with
 * ids are idempotent, and other writes have a request id. A stream is not sent again once something of it has arrived.
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
    const patience = this.#patience(timeoutMs, this.#options.timeoutMs ?? defaults.timeoutMs);
    for (;;) {
      try {
        const headers = await this.#authorized(header);
        return await this.#inner.unary(method, signal, patience.remainingMs, headers, input);
      } catch (thrown) {
        await patience.after(thrown, signal);
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
    const bulk = this.#options.bulkTimeoutMs ?? defaults.bulkTimeoutMs;
    const patience = this.#patience(timeoutMs, bulk);
    try {
      const headers = await this.#authorized(header);
      const response = await this.#inner.stream(method, signal, patience.remainingMs, headers, input);
      return { ...response, message: failing(response.message) };
    } catch (thrown) {
      throw NoMemoryError.from(thrown);
    }
  }

  /** Yield the replies to one request. Closing the iterator cancels the call. */
  async *replies<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O> & { methodKind: "server_streaming" },
    signal: AbortSignal | undefined,
    timeoutMs: number,
    header: HeadersInit | undefined,
    request: MessageInitShape<I>,
  ): AsyncGenerator<MessageShape<O>> {
    const patience = this.#patience(timeoutMs, timeoutMs);
    const closing = new AbortController();
    const either = signal ? AbortSignal.any([signal, closing.signal]) : closing.signal;
    for (let arrived = false; ; ) {
      let replies: AsyncIterator<MessageShape<O>> | undefined;
      try {
        const headers = await this.#authorized(header);
        const opened = await this.#inner.stream(method, either, patience.remainingMs, headers, once(request));
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
        await patience.after(thrown, signal);
      } finally {
        if (arrived) {
          closing.abort();
          replies?.next().catch(() => {}); // by which the transport learns that it is over, and stops its timer
        }
      }
    }
  }

  #patience(timeoutMs: number | undefined, standard: number): Patience {
    return new Patience(timeoutMs ?? standard, this.#options.attempts ?? defaults.attempts);
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

async function* failing<Reply>(replies: AsyncIterable<Reply>): AsyncGenerator<Reply> {
  try {
    yield* replies;
  } catch (thrown) {
    throw NoMemoryError.from(thrown);
  }
}

async function* once<Value>(value: Value): AsyncGenerator<Value> {
  yield value;
}
