import { expect, test } from "vitest";
import { isolatePrograms } from "./platform.js";

test("this machine offers what an isolate needs", () => {
  expect(isolatePrograms()).toEqual({
    workerd: expect.stringMatching(/\/bin\/workerd$/),
    prlimit: expect.stringMatching(/\/prlimit$/),
    setpriv: expect.stringMatching(/\/setpriv$/),
  });
});

test("another kind of machine is told what is missing", () => {
  expect(() => isolatePrograms("darwin")).toThrow("Isolates need Linux with /proc mounted; this is darwin.");
});
