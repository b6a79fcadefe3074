import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { NoMemory } from "./client.js";
import type { ClientOptions } from "./options.js";

/** Options of `connect`. */
export interface ConnectOptions extends Omit<ClientOptions, "onClose"> {
  /**
   * Enables TLS. `true` trusts the certificate authorities of the system. `ca` (PEM) sets other authorities; `cert` and
   * `key` (PEM) set the client certificate for mutual TLS. Default: plaintext.
   */
  readonly tls?: boolean | { readonly ca?: string; readonly cert?: string; readonly key?: string };
}

/** Create a client that calls the server at `target` (HOST:PORT) with gRPC. It connects at the first call. */
export function connect(target: string, options: ConnectOptions = {}): NoMemory {
  const { tls = false, ...clientOptions } = options;
  const baseUrl = `${tls ? "https" : "http"}://${target}`;
  const sessionManager = new Http2SessionManager(baseUrl, {}, typeof tls === "boolean" ? {} : tls);
  const transport = createGrpcTransport({ baseUrl, sessionManager });
  return new NoMemory(transport, { ...clientOptions, onClose: () => sessionManager.abort() });
}
