import { defineConfig } from "vitest/config";

// Tests run the sources of every workspace, never a build: the condition picks `src` in each package's exports.
export default defineConfig({
  resolve: { conditions: ["iterate-source", "node"] },
  ssr: { resolve: { conditions: ["iterate-source", "node"] } },
  test: {
    include: ["{libs,services}/*/src/**/*.test.ts", "services/*/test/**/*.test.ts", "deploy/local/src/**/*.test.ts", "test/**/*.test.ts"],
    globalSetup: ["libs/testing/src/global-setup.ts"],
    pool: "forks",
    execArgv: ["--conditions=iterate-source"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
