import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { forwardable, fromRunnerHeaders, responseHeaders, toSupervisorHeaders } from "./exchange-headers.js";

const parsed = (pairs: readonly (readonly [string, string])[]) =>
  ({
    url: "/a?b",
    method: "PUT",
    rawHeaders: pairs.flat(),
    headers: Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value])),
  }) as unknown as IncomingMessage;

test("headers of one connection and of the platform do not travel", () => {
  expect(
    forwardable([
      ["Connection", "x"],
      ["Transfer-Encoding", "chunked"],
      ["X-Iterate-Operation", "ping"],
      ["x-iterate-outcome", "y"],
      ["X-Iterate-Base-Path", "/p"],
      ["accept", "a"],
    ]),
  ).toEqual([
    ["X-Iterate-Base-Path", "/p"],
    ["accept", "a"],
  ]);
});

test("the project's authorization makes way for the service's and comes back", () => {
  const sent = toSupervisorHeaders(
    [
      ["Authorization", "Bearer user"],
      ["a", "1"],
      ["a", "2"],
      ["x-iterate-project-authorization", "forged"],
    ],
    "https",
    "ticket",
  );
  expect(sent).toEqual([
    ["x-iterate-project-authorization", "Bearer user"],
    ["a", "1"],
    ["a", "2"],
    ["x-iterate-scheme", "https"],
    ["x-iterate-invocation", "ticket"],
  ]);
  const { path, method, headers } = fromRunnerHeaders(parsed([...sent, ["authorization", "Bearer service"]]));
  expect([path, method]).toEqual(["/a?b", "PUT"]);
  expect(headers).toEqual(["a", "1", "a", "2", "authorization", "Bearer user", "x-iterate-scheme", "https"]);
});

test("a request without an authorization of its own does not inherit the service's", () => {
  expect(fromRunnerHeaders(parsed([["authorization", "Bearer service"]])).headers).toEqual(["x-iterate-scheme", "http"]);
});

test("repeated response headers stay apart, and the outcome is the platform's word", () => {
  expect(responseHeaders({ "set-cookie": ["a=1", "b=2"], "x-iterate-outcome": "threw", connection: "close", etag: "e" })).toEqual({
    "x-iterate-outcome": "returned",
    "set-cookie": ["a=1", "b=2"],
    etag: "e",
  });
});
