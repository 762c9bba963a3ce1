import { expect, test } from "vitest";
import { eventually } from "./eventually.js";

test("answers the first value that is neither nothing nor false", async () => {
  const answers = [undefined, null, false, 0];
  expect(await eventually(() => answers.shift())).toBe(0);
});

test("waits through failures and names the last one when the bound is reached", async () => {
  let looks = 0;
  const failing = eventually(
    () => {
      looks++;
      throw new Error(`look ${looks}`);
    },
    { timeoutMs: 100, intervalMs: 10 },
  );
  await expect(failing).rejects.toThrow(/not so within 100 ms: look \d+/);
  expect(looks).toBeGreaterThan(2);
});

test("cuts a look that never comes back", async () => {
  const start = performance.now();
  await expect(eventually(() => new Promise<never>(() => undefined), { timeoutMs: 80 })).rejects.toThrow(/did not come back/);
  expect(performance.now() - start).toBeLessThan(1_000);
});
