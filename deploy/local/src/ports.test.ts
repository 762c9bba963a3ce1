import { createServer } from "node:net";
import { once } from "node:events";
import { expect, test } from "vitest";
import { pickPortBase, portBaseFrom, Ports, portSpan } from "./ports.js";
import { listenersOf, serviceRows } from "./services.js";

test("on the default base everything is where the documentation says", () => {
  const ports = new Ports(portBaseFrom({}));
  const all = serviceRows.flatMap((row) =>
    Object.entries(listenersOf(row, ports)).map(([variable, port]) => `${row.name} ${variable} ${port}`),
  );
  expect(all).toEqual(
    expect.arrayContaining([
      "ingress PUBLIC_HTTP_LISTEN 7400",
      "ingress PUBLIC_GRPC_LISTEN 7401",
      "ingress PROJECT_LISTEN 7402",
      "ingress GRPC_LISTEN 7403",
      "context GRPC_LISTEN 7410",
      "context HTTP_LISTEN 7440",
      "context ADMIN_LISTEN 7460",
      "telemetry GRPC_LISTEN 7414",
    ]),
  );
  expect([ports.of("nats"), ports.of("postgres"), ports.of("otlp-grpc"), ports.of("otlp-http")]).toEqual([7422, 7432, 7417, 7418]);
});

test("no two listeners share a port and all lie within the span", () => {
  const ports = new Ports(0);
  const all = [ports.of("nats"), ports.of("postgres"), ...serviceRows.flatMap((row) => Object.values(listenersOf(row, ports)))];
  expect(new Set(all).size).toBe(all.length);
  expect(Math.max(...all)).toBeLessThan(portSpan);
});

test.each(["1024", String(65_535 - portSpan)])("ITERATE_PORT_BASE may be %s", (text) => {
  expect(portBaseFrom({ ITERATE_PORT_BASE: text })).toBe(Number(text));
});

test.each(["1023", String(65_535 - portSpan + 1), "x", "7400.5", "-1"])("ITERATE_PORT_BASE may not be %s", (text) => {
  expect(() => portBaseFrom({ ITERATE_PORT_BASE: text })).toThrow(
    /ITERATE_PORT_BASE is ".*"; set it to a whole number from 1024 to 65465/,
  );
});

test("a picked base avoids a span in which one port is taken", async () => {
  const base = await pickPortBase();
  const server = createServer().listen(base + portSpan - 1, "127.0.0.1");
  await once(server, "listening");
  const index = (base - 10_000) / 100;
  const answers = [(index + 0.5) / 220, 0.999];
  expect(await pickPortBase(() => answers.shift() ?? 0)).not.toBe(base);
  server.close();
});
