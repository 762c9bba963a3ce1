/** How the services that answer roots are named in the configuration. */
import { expect, test } from "vitest";
import { parseProviders } from "./providers.js";

test("services are named with their addresses", () => {
  expect([...parseProviders("runner=http://runner:7411, agents=https://agents.example")]).toEqual([
    ["runner", "http://runner:7411"],
    ["agents", "https://agents.example"],
  ]);
  expect([...parseProviders("")]).toEqual([]);
});

test.each(["runner", "runner=", "runner=ftp://x", "Runner=http://x", "runner=http://x y", "a=http://x,a=http://y"])(
  "%j is refused with a sentence",
  (text) => {
    expect(() => parseProviders(text)).toThrow(/^(holds|names) /);
  },
);
