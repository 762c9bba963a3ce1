import { defineConfig } from "vitest/config";

// Tests run the sources of every workspace, never a build: the condition picks `src` in each package's exports.
const shared = {
  resolve: { conditions: ["iterate-source", "node"] },
  ssr: { resolve: { conditions: ["iterate-source", "node"] } },
};
const options = {
  pool: "forks",
  execArgv: ["--conditions=iterate-source"],
  testTimeout: 30_000,
  hookTimeout: 60_000,
} as const;

const wholeStack = ["test/e2e/**/*.test.ts", "test/docs/**/*.test.ts"];
const faults = ["test/faults/**/*.test.ts"];

export default defineConfig({
  test: {
    globalSetup: ["libs/testing/src/global-setup.ts"],
    projects: [
      {
        ...shared,
        test: {
          ...options,
          name: "suites",
          include: [
            "{libs,services}/*/src/**/*.test.ts",
            "services/*/test/**/*.test.ts",
            "deploy/local/src/**/*.test.ts",
            "docs/examples/*/*.test.ts",
            "test/**/*.test.ts",
          ],
          exclude: [...wholeStack, ...faults, "**/node_modules/**"],
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        ...shared,
        // A whole platform for each file: one at a time, when nothing else runs.
        test: {
          ...options,
          name: "stack",
          include: wholeStack,
          exclude: ["test/e2e/projects/**"],
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
      {
        ...shared,
        // Servers and pods of each file's own, under load: more at once would measure the machine.
        test: {
          ...options,
          name: "faults",
          include: faults,
          maxWorkers: 2,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
