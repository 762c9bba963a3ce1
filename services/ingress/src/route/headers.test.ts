import { expect, test } from "vitest";
import { headersForCode, headersFromCode } from "./headers.js";

const none = { drop: new Set<string>() };

test.for([
  ["a plain header is kept as spelled", ["X-Custom", "1"], ["X-Custom", "1"]],
  ["repeated headers are kept in order", ["accept", "a", "accept", "b"], ["accept", "a", "accept", "b"]],
  ["Host is dropped", ["Host", "a"], []],
  ["hop-by-hop headers are dropped", ["Transfer-Encoding", "chunked", "TE", "x", "Upgrade", "y", "Expect", "100-continue"], []],
  ["what Connection lists is dropped", ["Connection", "close, X-Hop", "x-hop", "1", "x-end", "2"], ["x-end", "2"]],
  ["forged headers of the platform are dropped", ["X-Iterate-Base-Path", "/", "x-itx-principal", "root"], []],
  ["forged forwarded headers are dropped", ["X-Forwarded-For", "::1", "Forwarded", "for=1", "Via", "1.1 a", "X-Real-IP", "1"], []],
] as const)("%s", ([, raw, kept]) => {
  expect(headersForCode(raw, none)).toEqual(kept);
});

test("two Host headers are refused, in any spelling", () => {
  expect(() => headersForCode(["Host", "a", "hOST", "b"], none)).toThrow(expect.objectContaining({ code: "INVALID_INPUT" }));
});

test("consumed credentials are dropped both ways", () => {
  const rules = { drop: new Set(["cookie", "set-cookie", "authorization"]) };
  expect(headersForCode(["Cookie", "a=1", "Authorization", "Bearer x", "accept", "*/*"], rules)).toEqual(["accept", "*/*"]);
  const answer = { "set-cookie": ["a=1"], "content-type": "text/plain", connection: "x-a", "x-a": "1", link: ["a", "b"] };
  expect(headersFromCode(answer, rules)).toEqual({ "content-type": "text/plain", link: ["a", "b"] });
});
