import { describe, expect, expectTypeOf, test } from "vitest";
import {
  defineConfig,
  extendConfig,
  file,
  flag,
  fraction,
  integer,
  listen,
  oneOf,
  optional,
  text,
  url,
  type ListenAddress,
} from "./config.js";

const definition = defineConfig({
  databaseUrl: url("DATABASE_URL", ["postgres", "postgresql"], { description: "The service's own database.", secret: true }),
  grpcListen: listen("GRPC_LISTEN", { description: "Where gRPC listens.", default: "127.0.0.1:7410" }),
  poolSize: integer("POOL_SIZE", { min: 1, max: 16 }, { description: "Connections.", default: "8" }),
  sampling: fraction("SAMPLING", { description: "Share of traces.", default: "0.05" }),
  verbose: flag("VERBOSE", { description: "More lines.", default: "false" }),
  hosts: oneOf("PROJECT_HOSTS", ["paths", "subdomains"], { description: "How | hosts are named.", default: "paths" }),
  greeting: optional(text("GREETING", { description: "Said first." })),
});
const databaseUrl = "postgres://u:hunter2@127.0.0.1:7432/iterate";

function problemsOf(env: Record<string, string>): string {
  try {
    definition.load(env);
  } catch (error) {
    expect(error).toMatchObject({ code: "INVALID_INPUT" });
    return (error as Error).message;
  }
  throw new Error("the environment was accepted");
}

describe("configuration", () => {
  test("is typed and takes defaults for unset and empty variables", () => {
    const config = definition.load({ DATABASE_URL: databaseUrl, POOL_SIZE: "", VERBOSE: "1", GREETING: "hi" });
    expect(config).toEqual({
      databaseUrl,
      grpcListen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port: 7410 },
      poolSize: 8,
      sampling: 0.05,
      verbose: true,
      hosts: "paths",
      greeting: "hi",
    });
    expectTypeOf(config.grpcListen).toEqualTypeOf<ListenAddress>();
    expectTypeOf(config.greeting).toEqualTypeOf<string | undefined>();
    expectTypeOf(config.hosts).toEqualTypeOf<"paths" | "subdomains">();
  });

  test("reports every problem at once by variable, observed value and remedy", () => {
    const message = problemsOf({ POOL_SIZE: "17", PROJECT_HOSTS: "path", VERBOSE: "yes" });
    expect(message.split("\n")).toEqual([
      "configuration:",
      "  DATABASE_URL is not set; set it to a URL starting with postgres:// or postgresql:// (The service's own database.)",
      '  POOL_SIZE ("17") is out of range; expected a whole number from 1 to 16',
      '  VERBOSE ("yes") is neither true nor false; expected true or false',
      '  PROJECT_HOSTS ("path") is none of the choices; expected paths or subdomains',
    ]);
  });

  test("never prints a secret, not even a malformed one", () => {
    for (const value of ["hunter2", "mysql://u:hunter2@h/d", "://hunter2"]) {
      const message = problemsOf({ DATABASE_URL: value });
      expect(message).toContain("DATABASE_URL (value hidden)");
      expect(message).not.toContain("hunter2");
    }
  });

  test.each([
    ["0", false],
    ["1", true],
    ["16", true],
    ["17", false],
    ["1.5", false],
    ["x", false],
  ])("takes POOL_SIZE=%s: %s", (value, accepted) => {
    const load = () => definition.load({ DATABASE_URL: databaseUrl, POOL_SIZE: value });
    if (accepted) expect(load().poolSize).toBe(Number(value));
    else expect(load).toThrow("POOL_SIZE");
  });

  test.each([
    ["0.0.0.0:0", "0.0.0.0", 0],
    ["[::]:7410", "::", 7410],
    ["localhost:65535", "localhost", 65_535],
  ])("reads the listener %s", (value, host, port) => {
    expect(definition.load({ DATABASE_URL: databaseUrl, GRPC_LISTEN: value }).grpcListen).toEqual({
      variable: "GRPC_LISTEN",
      host,
      port,
    });
  });

  test.each(["7410", "::1:7410", "localhost:65536", "localhost:", ":7410"])("refuses the listener %s", (value) => {
    expect(problemsOf({ DATABASE_URL: databaseUrl, GRPC_LISTEN: value })).toContain(`GRPC_LISTEN (${JSON.stringify(value)})`);
  });

  test("names a file that cannot be read", () => {
    const keys = defineConfig({ key: file("KEY_FILE", { description: "The key." }) });
    expect(() => keys.load({ KEY_FILE: "/nowhere/key" })).toThrow('KEY_FILE ("/nowhere/key") cannot be read (ENOENT)');
    expect(keys.load({ KEY_FILE: import.meta.filename }).key).toBe(import.meta.filename);
  });

  test("can be extended, the extension winning", () => {
    const wider = extendConfig(
      definition,
      defineConfig({ poolSize: integer("POOL_SIZE", { min: 1, max: 64 }, { description: "Connections.", default: "32" }) }),
    );
    expect(wider.load({ DATABASE_URL: databaseUrl }).poolSize).toBe(32);
  });

  test("prints its reference as a Markdown table with escaped cells and no secret default", () => {
    expect(definition.docs().split("\n").slice(0, 4)).toEqual([
      "| variable | value | default | meaning |",
      "|---|---|---|---|",
      "| `DATABASE_URL` | a URL starting with postgres:// or postgresql:// | **required** | The service's own database. Secret: never printed. |",
      "| `GRPC_LISTEN` | host:port, e.g. 127.0.0.1:7410 or [::]:7410 | `127.0.0.1:7410` | Where gRPC listens. |",
    ]);
    expect(definition.docs()).toContain("How \\| hosts are named.");
  });
});
