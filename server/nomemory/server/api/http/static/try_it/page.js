// Makes a form of each operation in openapi.json, and shows what the server answers. Everything that comes from the
// server is shown as text.
"use strict";

const byId = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

function resolved(api, node) {
  return node && node.$ref ? node.$ref.slice(2).split("/").reduce((place, part) => place[part], api) : node;
}

// An example of a schema: required for a person to begin with, never complete.
function example(api, schema, depth = 0) {
  const one = resolved(api, schema);
  if (one.enum) return one.enum[1] || one.enum[0];
  if (one.type === "array") return depth > 2 ? [] : [example(api, one.items, depth + 1)];
  if (one.type === "object") {
    const entries = Object.entries(one.properties || {}).filter(() => depth < 3);
    return Object.fromEntries(entries.map(([name, inner]) => [name, example(api, inner, depth + 1)]));
  }
  if (one.type === "integer" || one.type === "number") return 0;
  if (one.type === "boolean") return false;
  return one.format === "date-time" ? "2026-03-01T08:00:00Z" : "";
}

function headers(body, stream) {
  const found = {};
  if (body !== undefined) found["content-type"] = "application/json";
  if (stream) found.accept = "text/event-stream";
  if (byId("key").value) found.authorization = `Bearer ${byId("key").value}`;
  return found;
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

function address(path, fields) {
  const query = new URLSearchParams();
  for (const [parameter, input] of fields) {
    if (parameter.in === "path") {
      path = path.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    } else if (input.value && parameter.style === "deepObject") {
      const [key, ...value] = input.value.split("=");
      query.append(`${parameter.name}[${key}]`, value.join("="));
    } else if (input.value) {
      query.append(parameter.name, input.value);
    }
  }
  return query.size ? `${path}?${query}` : path;
}

async function show(output, response) {
  output.textContent = `${response.status} ${response.statusText}  ${response.headers.get("x-request-id") || ""}\n`;
  const text = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let body = "";
  for (let part = await text.read(); !part.done; part = await text.read()) {
    body += part.value;
    output.append(part.value);
  }
  if ((response.headers.get("content-type") || "").startsWith("application/json") && body) {
    output.textContent = output.textContent.split("\n")[0] + "\n" + JSON.stringify(JSON.parse(body), null, 2);
  }
}

function field(parameter) {
  const input = element("input", { placeholder: parameter.style === "deepObject" ? "key=value" : "" });
  const about = element("small", { textContent: parameter.description || "" });
  return [input, element("label", {}, element("span", { textContent: parameter.name }), input, about)];
}

// Return an operation; its form is made when it is opened.
function operation(api, path, verb, described) {
  const name = element("code", { textContent: `${verb.toUpperCase()} ${path}` });
  const about = element("span", { textContent: ` ${(described.description || "").split(". ")[0]}` });
  const made = element("details", {}, element("summary", {}, name, about));
  made.addEventListener("toggle", () => made.append(formOf(api, path, verb, described)), { once: true });
  return made;
}

function formOf(api, path, verb, described) {
  const parameters = (described.parameters || []).map((one) => resolved(api, one));
  const fields = [];
  const form = element("form");
  for (const parameter of parameters.filter((one) => one.in !== "header")) {
    const [input, label] = field(parameter);
    fields.push([parameter, input]);
    form.append(label);
  }
  let body;
  if (described.requestBody) {
    const schema = described.requestBody.content["application/json"].schema;
    body = element("textarea", { value: JSON.stringify(example(api, schema), null, 2), spellcheck: false, ariaLabel: "Body" });
    form.append(body);
  }
  const output = element("pre", { hidden: true, tabIndex: 0, ariaLabel: "Answer", role: "region" });
  form.append(element("button", { className: "go", textContent: "Send" }), output);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    output.hidden = false;
    output.textContent = "…";
    const sent = headers(body, "text/event-stream" in described.responses["200"].content);
    if (parameters.some((one) => one.name === "x-user-id") && byId("user").value) {
      sent["x-user-id-bin"] = base64(byId("user").value);
    }
    try {
      await show(output, await fetch(address(path, fields), { method: verb, headers: sent, body: body && body.value }));
    } catch (error) {
      output.textContent = String(error);
    }
    output.scrollIntoView({ block: "nearest" });
  });
  return form;
}

async function load() {
  const api = await (await fetch("openapi.json")).json();
  const sections = new Map(api.tags.map((tag) => [tag.name, element("section")]));
  for (const tag of api.tags) sections.get(tag.name).append(element("h2", { textContent: tag.name }));
  for (const [path, verbs] of Object.entries(api.paths)) {
    for (const [verb, described] of Object.entries(verbs)) {
      sections.get(described.tags[0]).append(operation(api, path, verb, described));
    }
  }
  byId("calls").replaceChildren(...sections.values());
}

byId("who").addEventListener("submit", (event) => event.preventDefault());
load().catch((error) => { byId("state").textContent = `openapi.json cannot be read: ${error}`; });
