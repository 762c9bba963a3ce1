import { expect, test } from "vitest";
import { configFileName, workerdFiles, type ConfigInput } from "./workerd-config.js";

const input: ConfigInput = {
  bundle: {
    owner: "prj_a",
    digest: "sha256:1",
    mainModule: "worker.js",
    entryModules: ["triage.js"],
    modules: [
      { name: "worker.js", kind: "esModule", data: Buffer.from("export default 1") },
      { name: "triage.js", kind: "esModule", data: Buffer.from("export class T {}") },
      { name: "lib/a.wasm", kind: "wasm", data: Buffer.from([0, 97]) },
    ],
  },
  harness: new Map([
    ["console.js", "1"],
    ["main.js", "2"],
  ]),
  sockets: { inPath: "/tmp/x/in", hostPath: "/tmp/x/host", egressPath: "/tmp/x/egress" },
  token: 'to"k\\en',
  limits: { heapMiB: 64 },
};
const files = new Map(workerdFiles(input).map(({ name, data }) => [name, String(data)]));
const config = files.get(configFileName)!;

test("the harness is the main module and every module of the bundle is embedded by its kind", () => {
  const modules = [...config.matchAll(/\(name = "([^"]+)", (\w+) = embed "(\w+)"\)/g)].map(([, name, kind, file]) => [
    name,
    kind,
    files.get(file!),
  ]);
  expect(modules[0]).toEqual(["harness/main.js", "esModule", "2"]);
  expect(modules).toContainEqual(["bundle/worker.js", "esModule", "export default 1"]);
  expect(modules).toContainEqual(["bundle/lib/a.wasm", "wasm", "\0a"]);
});

test("the generated entries import main and entry modules statically", () => {
  const entries = [...files.values()].find((text) => text.includes("export const entries"))!;
  expect(entries).toContain('import * as m0 from "../bundle/worker.js";\nimport * as m1 from "../bundle/triage.js";');
  expect(entries).toContain('export const mainModule = "worker.js";');
});

test("nothing reaches a network but the two sockets of the supervisor, and the token is escaped", () => {
  expect(config).toContain('(name = "internet", network = (allow = []))');
  expect(config).toContain('globalOutbound = "egress"');
  expect(config).toContain('value = "Bearer to\\"k\\\\en"');
  expect(config.match(/address = "unix:[^"]+"/g)).toHaveLength(3);
  expect(config).toContain('"--max-old-space-size=64"');
});

test("equal input gives equal bytes, and what a config text cannot hold is refused", () => {
  expect(workerdFiles(input)).toEqual(workerdFiles(input));
  expect(() => workerdFiles({ ...input, token: "a\nb" })).toThrow("printable ASCII");
});
