import { expect, test } from "vitest";
import { startMessage, toProjectNames, toProjectStack } from "./project-names.js";

const line = (message: string) => JSON.stringify({ timestamp: "1", level: "error", message });

test.each([
  [
    "service project: Uncaught SyntaxError: Unexpected token ';'\n  at bundle/src/main.js:1:28",
    "SyntaxError: Unexpected token ';'\n  at src/main.js:1:28",
  ],
  [
    'service project: Uncaught Error: No such module "bundle/lodash".\n  imported from "bundle/main.js"',
    'Error: No such module "lodash".\n  imported from "main.js"',
  ],
])("workerd's %j becomes the project's own sentence", (message, expected) => {
  expect(startMessage(["", line("Socket bind(): in use"), line(message)])).toBe(expected);
});

test("lines that are no records are still better than nothing, and no lines are nothing", () => {
  expect(startMessage(["*** Fatal error", ""])).toBe("*** Fatal error");
  expect(startMessage([""])).toBeUndefined();
});

test("a project's own folder of that name keeps it", () => {
  expect(toProjectNames("at bundle/bundle/a.js and my-bundle/a.js and x/bundle/b.js")).toBe(
    "at bundle/a.js and my-bundle/a.js and x/bundle/b.js",
  );
});

test("frames of the harness and the runtime leave a stack", () => {
  const stack =
    "Error: x\n    at P.run (bundle/a.js:1:2)\n    at take (harness/frames.js:3:4)\n    at node-internal:async_hooks:1:1";
  expect(toProjectStack(stack)).toBe("Error: x\n    at P.run (a.js:1:2)");
});
