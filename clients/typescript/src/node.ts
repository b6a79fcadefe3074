import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { NoMemory } from "./client.js";
import type { ClientOptions } from "./options.js";

/** What of a connection is not as by default. */
export interface ConnectOptions extends Omit<ClientOptions, "onClose"> {
  /**
   * Talk TLS. `true` trusts the authorities of the system; `ca` (PEM) trusts others instead, and `cert` with `key` is the
   * caller's own certificate where the server wants one. Default: in the clear.
   */
  readonly tls?: boolean | { readonly ca?: string; readonly cert?: string; readonly key?: string };
}

/** Make a client that talks gRPC with the server at `target`, which is HOST:PORT. It connects at the first call. */
export function connect(target: string, options: ConnectOptions = {}): NoMemory {
  const { tls = false, ...others } = options;
  const baseUrl = `${tls ? "https" : "http"}://${target}`;
  const sessionManager = new Http2SessionManager(baseUrl, {}, typeof tls === "boolean" ? {} : tls);
  const transport = createGrpcTransport({ baseUrl, sessionManager });
  return new NoMemory(transport, { ...others, onClose: () => sessionManager.abort() });
}
