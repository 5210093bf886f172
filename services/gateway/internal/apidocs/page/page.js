// Lists the operations of /openapi.json and tries those that change nothing.
// Text from the document and from answers reaches the page as text only.

const methods = ["get", "post", "put", "delete"];

// element makes an element; children are elements or text.
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes ?? {})) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

// resolve follows a reference into the document.
function resolve(api, node) {
  const reference = node?.$ref;
  if (!reference) return node;
  return reference.slice(2).split("/").reduce((at, part) => at?.[part], api);
}

// sketch draws a schema as the JSON that it describes. A type that holds itself
// is drawn once.
function sketch(api, schema, indent = "", within = []) {
  const name = schema?.$ref;
  if (name && within.includes(name)) return "…";
  const inside = name ? [...within, name] : within;
  const node = resolve(api, schema) ?? {};
  const deeper = indent + "  ";
  if (node.type === "array") return "[" + sketch(api, node.items, indent, inside) + ", …]";
  if (node.properties || node.additionalProperties) {
    const lines = Object.entries(node.properties ?? {}).map(
      ([field, of]) => `${deeper}"${field}": ${sketch(api, of, deeper, inside)}`);
    if (node.additionalProperties) lines.push(`${deeper}"…": ${sketch(api, node.additionalProperties, deeper, inside)}`);
    return lines.length ? "{\n" + lines.join(",\n") + "\n" + indent + "}" : "{}";
  }
  const type = node.type === "object" ? "{…}" : [node.type ?? "any", node.format].filter(Boolean).join(" ");
  return node["x-nullable"] ? type + " or null" : type;
}

// describe lists the documented fields of a schema, those of nested ones too.
function describe(api, schema, prefix = "", within = []) {
  const name = schema?.$ref;
  if (name && within.includes(name)) return [];
  const inside = name ? [...within, name] : within;
  const node = resolve(api, schema) ?? {};
  if (node.type === "array") return describe(api, node.items, prefix + "[]", inside);
  return Object.entries(node.properties ?? {}).flatMap(([field, of]) => {
    const path = prefix ? `${prefix}.${field}` : field;
    const own = of.description ? [[path, of.description]] : [];
    return [...own, ...describe(api, of, path, inside)];
  });
}

function table(headings, rows) {
  return element("table", null,
    element("tr", null, ...headings.map((text) => element("th", null, text))),
    ...rows.map((cells) => element("tr", null, ...cells.map((cell) => element("td", null, cell)))));
}

function fields(api, schema) {
  const rows = describe(api, schema);
  return rows.length ? [table(["field", ""], rows)] : [];
}

// attempt is the form that sends a GET.
function attempt(path, parameters) {
  const form = element("form");
  const inputs = parameters.map((parameter) => {
    const input = element("input", { name: parameter.name, "aria-label": parameter.name });
    input.required = parameter.in === "path";
    return { parameter, input };
  });
  if (inputs.length) {
    form.append(table(["parameter", "", ""], inputs.map(({ parameter, input }) => [
      parameter.name, input, parameter.description ?? (parameter.in === "path" ? "In the path." : ""),
    ])));
  }
  const output = element("div", { role: "status" });
  form.append(element("button", null, "Try it"), output);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    let target = path;
    for (const { parameter, input } of inputs) {
      if (parameter.in === "path") target = target.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value !== "") query.append(parameter.name, input.value);
    }
    if (query.size) target += "?" + query;
    send(target, output);
  });
  return form;
}

// send shows the answer to a GET.
async function send(target, output) {
  const key = document.getElementById("key").value.trim();
  output.replaceChildren(element("p", { class: "dim" }, `GET ${target} …`));
  try {
    const answer = await fetch(target, { headers: key ? { "X-Es-Key": key } : {}, credentials: "omit", cache: "no-store" });
    const text = await answer.text();
    output.replaceChildren(
      element("p", { class: answer.ok ? "dim" : "failed" }, `GET ${target}: ${answer.status} ${answer.statusText}`),
      element("pre", null, text || "(no body)"));
  } catch (error) {
    output.replaceChildren(element("p", { class: "failed" }, `GET ${target}: ${error.message}`));
  }
}

const firstSentence = (text) => (text ?? "").split(/[.;](?:\s|$)/)[0];

// operation is the entry of one method of one path.
function operation(api, path, method, of) {
  const body = element("div");
  const parameters = of.parameters ?? [];
  const others = parameters.filter((parameter) => parameter.in !== "body");
  body.append(element("p", null, of.summary ?? ""));
  if (method === "get") {
    body.append(attempt(path, others));
  } else if (others.length) {
    body.append(table(["parameter", "", ""], others.map((p) => [p.name, p.in, p.description ?? ""])));
  }
  for (const { schema } of parameters.filter((parameter) => parameter.in === "body")) {
    body.append(element("h3", null, "Body"), element("pre", null, sketch(api, schema)), ...fields(api, schema));
  }
  body.append(element("h3", null, "Answers"));
  for (const [status, response] of Object.entries(of.responses ?? {})) {
    const { description, schema } = resolve(api, response) ?? {};
    body.append(element("p", null, element("b", null, status === "default" ? "else" : status), ` ${description ?? ""}`));
    if (schema && status !== "default") body.append(element("pre", null, sketch(api, schema)), ...fields(api, schema));
  }
  const entry = element("details", { id: of.operationId },
    element("summary", null,
      element("span", { class: `method ${method}` }, method.toUpperCase()),
      element("span", { class: "path" }, path),
      element("span", { class: "what" }, firstSentence(of.summary))),
    body);
  entry.dataset.text = `${method} ${path} ${of.summary ?? ""}`.toLowerCase();
  return entry;
}

function show(api) {
  document.getElementById("about").textContent = api.info?.description ?? "";
  const groups = new Map();
  for (const [path, item] of Object.entries(api.paths ?? {})) {
    for (const method of methods) {
      const of = item[method];
      if (!of) continue;
      const tag = of.tags?.[0] ?? "";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(api, path, method, of));
    }
  }
  const order = ["TopicService", "LogService", "GroupService", "SchemaService", "Server", "AdminService", "KeyService"];
  const place = (tag) => (order.includes(tag) ? order.indexOf(tag) : order.length);
  const about = new Map((api.tags ?? []).map((tag) => [tag.name, tag.description]));
  const sections = [...groups.keys()].sort((a, b) => place(a) - place(b) || a.localeCompare(b)).map((tag) =>
    element("section", null,
      element("h2", null, tag.replace(/Service$/, "")),
      ...(about.has(tag) ? [element("p", { class: "dim" }, about.get(tag))] : []),
      ...groups.get(tag)));
  const main = document.getElementById("operations");
  main.replaceChildren(...sections);

  document.getElementById("find").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    for (const section of sections) {
      const entries = [...section.querySelectorAll("details")];
      for (const entry of entries) entry.hidden = !entry.dataset.text.includes(wanted);
      section.hidden = entries.every((entry) => entry.hidden);
    }
  });
  const opened = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (opened) {
    opened.open = true;
    opened.scrollIntoView();
  }
}

try {
  const answer = await fetch("/openapi.json");
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  show(await answer.json());
} catch (error) {
  document.getElementById("operations").replaceChildren(
    element("p", { class: "failed" }, `openapi.json could not be shown: ${error.message}`));
}
