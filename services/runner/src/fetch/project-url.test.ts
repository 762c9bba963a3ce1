import { expect, test } from "vitest";
import { projectAddress } from "./project-url.js";

const owner = "prj_01jzzzzzzzzzzzzzzzzzzzzzzz";
const addressed = (url: string, host: string) => projectAddress({ url, headers: { host: "runner", "x-forwarded-host": host } });

test.for(["example.com", "a_b.example:8080", "127.0.0.1:7402", "[::1]:7402"])(
  "code sees the host %s as the client sent it",
  (host) => {
    expect(addressed(`/fetch/${owner}/a/../b?c=%zz`, host)).toEqual({ owner, url: `http://${host}/a/../b?c=%zz` });
  },
);

test.for([
  "",
  "a b",
  "user@example.com",
  "example.com/path",
  "example.com?a",
  "example.com#a",
  "example.com\\a",
  "%00",
  "a:99999",
  "a:",
])("a host of %j is refused: it would move the path", (host) => {
  expect(() => addressed(`/fetch/${owner}/page`, host)).toThrow(expect.objectContaining({ code: "INVALID_INPUT" }));
});

test.for(["/", "/fetch/", `/fetch/${owner}#a`, `/fetch/..%2f/x`, `http://a/fetch/${owner}/`])(
  "%s is no page of a project",
  (url) => {
    expect(() => addressed(url, "example.com")).toThrow(expect.objectContaining({ code: "NOT_FOUND" }));
  },
);
