// The reference page of the gRPC services, from the contracts in proto/ and the words that stand beside each of their parts.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

/** Numbers of the parts of a file, as its source locations spell paths. */
const part = { message: 4, enum: 5, service: 6, nested: 3, field: 2, method: 2, value: 2 };

/** The page as markdown. */
export function grpcPage() {
  const buf = join(root, "node_modules/.bin/buf");
  const image = JSON.parse(execFileSync(buf, ["build", "proto", "-o", "-#format=json"], { cwd: root, maxBuffer: 64 << 20 }));
  const files = image.file
    .filter(({ package: name }) => name.startsWith("iterate."))
    .sort((one, other) => (one.name < other.name ? -1 : 1));
  const isPublic = publicServices();
  const services = files.flatMap((file) => (file.service ?? []).map((service, at) => ({ file, service, at })));
  const section = (title, of) => `## ${title}\n\n${of.map(serviceSection).join("\n")}`;
  const [open, internal] = [true, false].map((wanted) => services.filter(({ service }) => isPublic.has(service.name) === wanted));
  return `# gRPC

Every method and message of the platform, generated from \`proto/\`. Errors are [codes](errors.md) in the one \`ErrorInfo\` of a status. 64-bit
integers carry offsets and times; a client that cannot hold them as such reads them as text. A field marked *optional* tells absent from
its zero.

${section("Public services", open)}
${section("Services between the services", internal)}
## Messages

${files.map(messagesOf).join("\n")}`;
}

/** Services that the edge answers on its public listener. */
function publicServices() {
  const main = readFileSync(join(root, "services/ingress/src/main.ts"), "utf8");
  return new Set([...main.matchAll(/publicGrpc\.add\(\s*(\w+)Service,/g)].map(([, name]) => name));
}

function serviceSection({ file, service, at }) {
  const rows = service.method.map(({ name, inputType, outputType, clientStreaming, serverStreaming }, index) => {
    const type = (streams, full) => `${streams ? "stream of " : ""}${linked(full)}`;
    return `| \`${name}\` | ${type(clientStreaming, inputType)} | ${type(serverStreaming, outputType)} | ${said(file, [part.service, at, part.method, index], name)} |`;
  });
  return `### ${file.package}.${service.name}

${said(file, [part.service, at])}

| method | takes | answers | |
|---|---|---|---|
${rows.join("\n")}
`;
}

function messagesOf(file) {
  const messages = (file.messageType ?? []).map((message, at) => messageSection(file, message, [part.message, at]));
  const enums = (file.enumType ?? []).map((type, at) => enumSection(file, type, [part.enum, at]));
  return [...messages, ...enums].join("\n");
}

function messageSection(file, message, path) {
  const rows = (message.field ?? []).map(
    (field, at) =>
      `| \`${field.name}\` | ${field.number} | ${fieldType(message, field)} | ${said(file, [...path, part.field, at])} |`,
  );
  const table = rows.length === 0 ? "It has no field.\n" : `| field | number | type | |\n|---|---|---|---|\n${rows.join("\n")}\n`;
  return `### ${file.package}.${message.name}\n\n${said(file, path)}\n\n${table}`;
}

function enumSection(file, type, path) {
  const rows = type.value.map(
    ({ name, number }, at) => `| \`${name}\` | ${number ?? 0} | ${said(file, [...path, part.value, at])} |`,
  );
  return `### ${file.package}.${type.name}\n\n${said(file, path)}\n\n| value | number | |\n|---|---|---|\n${rows.join("\n")}\n`;
}

function fieldType(message, { type, typeName, label, oneofIndex, proto3Optional, name }) {
  const plain = typeName === undefined ? `\`${type.slice("TYPE_".length).toLowerCase()}\`` : linked(typeName);
  const entry = (message.nestedType ?? []).find(
    (nested) => nested.options?.mapEntry === true && typeName?.endsWith(`.${message.name}.${nested.name}`),
  );
  if (entry !== undefined) return `map of ${entry.field.map((field) => fieldType(entry, field)).join(" to ")}`;
  if (label === "LABEL_REPEATED") return `repeated ${plain}`;
  if (proto3Optional === true) return `${plain}, optional`;
  return oneofIndex === undefined ? plain : `${plain}, one of \`${message.oneofDecl[oneofIndex].name}\``;
}

/** A type of these contracts as a link to its section; another by its name. */
function linked(full) {
  const name = full.slice(1);
  const short = name.split(".").at(-1);
  return name.startsWith("iterate.") ? `[\`${short}\`](#${name.replaceAll(".", "").toLowerCase()})` : `\`${name}\``;
}

/** The words beside a part of a file, as one line without the part's own name at its start. */
function said(file, path, name = "") {
  const key = path.join();
  const location = file.sourceCodeInfo.location.find(
    (candidate) => (candidate.path ?? []).join() === key && candidate.leadingComments,
  );
  if (location === undefined) throw new Error(`docs: ${file.name} says nothing of ${name === "" ? key : name}`);
  const text = location.leadingComments
    .trim()
    .replaceAll(/\s*\n\s*/g, " ")
    .replaceAll("|", "\\|");
  const rest = name !== "" && text.startsWith(`${name} `) ? text.slice(name.length + 1) : text;
  return rest.charAt(0).toUpperCase() + rest.slice(1);
}
