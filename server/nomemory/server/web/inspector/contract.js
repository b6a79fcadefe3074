// Calls of the contract, by the Connect protocol in JSON. Only calls that read are here.
import { credential } from "./credential.js";

const ROOT = new URL("../", document.baseURI);
const HEAD_BYTES = 5;
const ENDS = 0b10;

export class CallError extends Error {
  constructor(code, message, details = []) {
    super(message);
    this.code = code;
    this.details = details;
  }

  get reason() {
    const info = this.details.find((one) => String(one.type ?? one["@type"]).endsWith("google.rpc.ErrorInfo"));
    return (info?.debug ?? info)?.reason ?? this.code.toUpperCase();
  }

  get isOfCredentials() {
    return this.code === "unauthenticated";
  }
}

// How many messages are read by their ids at once.
export const MOST_IDS = 500;

const QUERY = "nomemory.v1.QueryService/";
export const listUsers = (request, signal) => call(`${QUERY}ListUsers`, request, signal);
export const listMessages = (request, signal) => call(`${QUERY}ListMessages`, request, signal);
export const countMessages = (request, signal) => call(`${QUERY}CountMessages`, request, signal);
export const searchWords = (request, signal) => call(`${QUERY}LexicalSearch`, request, signal);
export const searchHybrid = (request, signal) => call(`${QUERY}HybridSearch`, request, signal);
export const getMessages = (request, signal) => call(`${QUERY}BatchGetMessages`, request, signal);
export const serverInfo = (signal) => call("nomemory.v1.ServerService/GetServerInfo", {}, signal);
export const indexStatus = (request, signal) => call("nomemory.v1.IngestService/GetIndexStatus", request, signal);
export const streamRecall = (recall, user, signal) =>
  stream("nomemory.v1.RecallService/StreamRecall", { recall }, { "x-user-id-bin": base64(user) }, signal);

async function call(method, request, signal) {
  const response = await post(method, "application/json", JSON.stringify(request), {}, signal);
  const body = await response.text();
  if (!response.ok) throw refusal(response, body);
  return JSON.parse(body);
}

async function* stream(method, request, headers, signal) {
  const response = await post(method, "application/connect+json", envelope(JSON.stringify(request)), headers, signal);
  if (!response.ok) throw refusal(response, await response.text());
  for await (const { flags, text } of envelopes(response.body.getReader())) {
    if (!(flags & ENDS)) yield JSON.parse(text);
    else if (JSON.parse(text).error) throw ofConnect(JSON.parse(text).error);
    else return;
  }
  throw new CallError("unavailable", "the stream was cut off");
}

async function post(method, mediaType, body, headers, signal) {
  const all = { "content-type": mediaType, ...credential.headers(), ...headers };
  try {
    return await fetch(new URL(method, ROOT), { method: "POST", headers: all, body, signal, credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new CallError("unavailable", "the server does not answer");
  }
}

function refusal(response, body) {
  try {
    const said = JSON.parse(body);
    return ofConnect(said.error ?? said);
  } catch {
    return new CallError("unknown", `HTTP ${response.status}`);
  }
}

const ofConnect = (error) => new CallError(String(error.code).toLowerCase(), error.message, error.details ?? []);

function envelope(text) {
  const payload = new TextEncoder().encode(text);
  const whole = new Uint8Array(HEAD_BYTES + payload.length);
  new DataView(whole.buffer).setUint32(1, payload.length);
  whole.set(payload, HEAD_BYTES);
  return whole;
}

async function* envelopes(reader) {
  let pending = new Uint8Array(0);
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const joined = new Uint8Array(pending.length + part.value.length);
    joined.set(pending);
    joined.set(part.value, pending.length);
    pending = joined;
    while (pending.length >= HEAD_BYTES) {
      const end = HEAD_BYTES + new DataView(pending.buffer, pending.byteOffset).getUint32(1);
      if (pending.length < end) break;
      yield { flags: pending[0], text: new TextDecoder().decode(pending.subarray(HEAD_BYTES, end)) };
      pending = pending.slice(end);
    }
  }
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
