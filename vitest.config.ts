import { defineConfig } from "vitest/config";

// Tests run the sources of every workspace, never a build: the condition picks `src` in each package's exports.
export default defineConfig({
  resolve: { conditions: ["iterate-source", "node", "import", "default"] },
  ssr: { resolve: { conditions: ["iterate-source", "node", "import", "default"] } },
  test: {
    include: ["{libs,services}/*/src/**/*.test.ts", "services/*/test/**/*.test.ts", "test/**/*.test.ts"],
    pool: "forks",
    execArgv: ["--conditions=iterate-source"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
});
