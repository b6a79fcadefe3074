// Creates a form with the example request of each operation in openapi.json, and shows the responses. All data of the
// server is shown as text.
"use strict";

const byId = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const node = Object.assign(document.createElement(name), attributes);
  node.append(...children);
  return node;
}

function resolve(api, node) {
  return node && node.$ref ? node.$ref.slice(2).split("/").reduce((value, part) => value[part], api) : node;
}

function requestHeaders(body, isStream) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (isStream) headers.accept = "text/event-stream";
  if (byId("key").value) headers.authorization = `Bearer ${byId("key").value}`;
  return headers;
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

function requestUrl(path, fields) {
  const query = new URLSearchParams();
  for (const [parameter, input] of fields) {
    if (parameter.in === "path") {
      path = path.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    } else if (input.value && parameter.style === "deepObject") {
      const [key, ...value] = input.value.split("=");
      query.append(`${parameter.name}[${key}]`, value.join("="));
    } else if (input.value && parameter.schema.type === "array") {
      for (const value of input.value.split(",")) query.append(parameter.name, value.trim());
    } else if (input.value) {
      query.append(parameter.name, input.value);
    }
  }
  return query.size ? `${path}?${query}` : path;
}

async function show(output, response) {
  output.textContent = `${response.status} ${response.statusText}  ${response.headers.get("x-request-id") || ""}\n`;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let body = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    body += part.value;
    output.append(part.value);
  }
  if ((response.headers.get("content-type") || "").startsWith("application/json") && body) {
    output.textContent = output.textContent.split("\n")[0] + "\n" + JSON.stringify(JSON.parse(body), null, 2);
  }
}

function field(parameter) {
  const placeholder = parameter.style === "deepObject" ? "key=value" : parameter.schema.type === "array" ? "a, b" : "";
  const input = element("input", { placeholder, value: [parameter.example ?? ""].flat().join(", ") });
  const about = element("small", { textContent: parameter.description || "" });
  return [input, element("label", {}, element("span", { textContent: parameter.name }), input, about)];
}

// Return the section of an operation. Its form is created when the section is opened.
function operationSection(api, path, verb, operation) {
  const name = element("code", { textContent: `${verb.toUpperCase()} ${path}` });
  const about = element("span", { textContent: ` ${(operation.description || "").split(". ")[0]}` });
  const section = element("details", {}, element("summary", {}, name, about));
  section.addEventListener("toggle", () => section.append(formOf(api, path, verb, operation)), { once: true });
  return section;
}

function formOf(api, path, verb, operation) {
  const parameters = (operation.parameters || []).map((parameter) => resolve(api, parameter));
  const fields = [];
  const form = element("form");
  for (const parameter of parameters.filter(({ in: location }) => location !== "header")) {
    const [input, label] = field(parameter);
    fields.push([parameter, input]);
    form.append(label);
  }
  let body;
  if (operation.requestBody) {
    const text = JSON.stringify(operation.requestBody.content["application/json"].example, null, 2);
    const rows = text.split("\n").length + 1;
    body = element("textarea", { value: text, rows, spellcheck: false, ariaLabel: "Request body" });
    form.append(body);
  }
  const output = element("pre", { hidden: true, tabIndex: 0, ariaLabel: "Response", role: "region" });
  form.append(element("button", { className: "go", textContent: "Send" }), output);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    output.hidden = false;
    output.textContent = "…";
    const headers = requestHeaders(body, "text/event-stream" in operation.responses["200"].content);
    if (parameters.some(({ name }) => name === "x-user-id") && byId("user").value) {
      headers["x-user-id-bin"] = base64(byId("user").value);
    }
    try {
      await show(output, await fetch(requestUrl(path, fields), { method: verb, headers, body: body && body.value }));
    } catch (error) {
      output.textContent = String(error);
    }
    output.scrollIntoView({ block: "nearest" });
  });
  return form;
}

async function load() {
  const api = await (await fetch("openapi.json")).json();
  byId("user").value = api.components.parameters["x-user-id"].example;
  const sections = new Map(api.tags.map((tag) => [tag.name, element("section")]));
  for (const tag of api.tags) sections.get(tag.name).append(element("h2", { textContent: tag.name }));
  for (const [path, verbs] of Object.entries(api.paths)) {
    for (const [verb, operation] of Object.entries(verbs)) {
      sections.get(operation.tags[0]).append(operationSection(api, path, verb, operation));
    }
  }
  byId("calls").replaceChildren(...sections.values());
}

byId("who").addEventListener("submit", (event) => event.preventDefault());
load().catch((error) => { byId("state").textContent = `Cannot load openapi.json: ${error}`; });
