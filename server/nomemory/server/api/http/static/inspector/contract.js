// Read calls of the HTTP API.
import { credential } from "./credential.js";

const ROOT = new URL("../", document.baseURI);

export class CallError extends Error {
  constructor(code, message, details = []) {
    super(message);
    this.code = code;
    this.details = details;
  }

  get reason() {
    const info = this.details.find((detail) => String(detail["@type"]).endsWith("google.rpc.ErrorInfo"));
    return info?.reason ?? this.code.toUpperCase();
  }

  get isOfCredentials() {
    return this.code === "unauthenticated";
  }
}

// Maximum number of ids of a batch_get call.
export const MAX_IDS = 500;
// Maximum length of the ids in a URL. The server accepts at least 32 KiB of URL and headers.
const IDS_CHARS = 8000;

export const listUsers = (request, signal) => get("v1/users", request, signal);
export const listMessages = (request, signal) => get("v1/users/{userId}/messages", request, signal);
export const countMessages = (request, signal) => get("v1/users/{userId}/messages:count", request, signal);
export const searchLexical = (request, signal) => post("v1/messages/lexical_search", request, signal);
export const searchHybrid = (request, signal) => post("v1/messages/hybrid_search", request, signal);
export const serverInfo = (signal) => get("v1/server_info", {}, signal);
export const indexStatus = (request, signal) => get("v1/index_status", request, signal);

export async function getMessages({ userId, messageIds }, signal) {
  const pages = [];
  for (const ids of batches(messageIds)) {
    pages.push(await get("v1/users/{userId}/messages:batch_get", { userId, messageIds: ids }, signal));
  }
  return { items: pages.flatMap(({ items = [] }) => items) };
}

export async function* streamRecall(recall, user, signal) {
  const headers = { "x-user-id-bin": base64(user), accept: "text/event-stream" };
  const response = await send("POST", "v1/recall:stream", recall, headers, signal);
  for await (const { event, data } of events(response.body.pipeThrough(new TextDecoderStream()).getReader())) {
    if (event === "message") yield JSON.parse(data);
    else if (event === "error") throw callError(JSON.parse(data));
    else return;
  }
  throw new CallError("unavailable", "the stream was cut off");
}

async function get(template, { userId, ...request }, signal) {
  const inPath = template.includes("{userId}");
  const path = template.replace("{userId}", () => encodeURIComponent(userId));
  const query = new URLSearchParams([...parameters(inPath ? request : { userId, ...request })]);
  return (await send("GET", query.size ? `${path}?${query}` : path, undefined, {}, signal)).json();
}

async function post(path, request, signal) {
  return (await send("POST", path, request, {}, signal)).json();
}

async function send(method, path, request, headers, signal) {
  const body = request && JSON.stringify(request);
  const all = { ...(body && { "content-type": "application/json" }), ...credential.headers(), ...headers };
  let response;
  try {
    response = await fetch(new URL(path, ROOT), { method, headers: all, body, signal, credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new CallError("unavailable", "the server does not respond");
  }
  if (!response.ok) throw errorOf(response, await response.text());
  return response;
}

function errorOf(response, body) {
  try {
    return callError(JSON.parse(body));
  } catch {
    return new CallError("unknown", `HTTP ${response.status}`);
  }
}

const callError = ({ error }) => new CallError(String(error.code).toLowerCase(), error.message, error.details ?? []);

// Yield the query parameters of a request. Nested names are joined, as in `filter.timeRange.since`; lists repeat the name.
function* parameters(request, prefix = "") {
  for (const [key, value] of Object.entries(request)) {
    if (Array.isArray(value)) for (const item of value) yield [prefix + key, item];
    else if (typeof value === "object" && value !== null) yield* parameters(value, `${prefix}${key}.`);
    else if (value !== undefined && value !== null) yield [prefix + key, value];
  }
}

function* batches(ids) {
  let [batch, chars] = [[], 0];
  for (const id of ids) {
    const more = encodeURIComponent(id).length;
    if (batch.length && chars + more > IDS_CHARS) {
      yield batch;
      [batch, chars] = [[], 0];
    }
    batch.push(id);
    chars += more;
  }
  if (batch.length) yield batch;
}

// Yield server-sent events, without comments.
async function* events(reader) {
  let pending = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const blocks = (pending + part.value).split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) {
      const fields = block.split("\n").filter((line) => !line.startsWith(":")).map((line) => line.split(/: (.*)/s));
      const { event = "message", data } = Object.fromEntries(fields);
      if (data !== undefined) yield { event, data };
    }
  }
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
