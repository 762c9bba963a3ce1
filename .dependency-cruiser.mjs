// The floors of the house: which folder may import which. `test/lint` plants a violation of each and expects it to be found.
const notShipped = ["\\.test\\.ts$", "\\.fixture\\.ts$", "^[^/]+/[^/]+/test/", "^[^/]+/[^/]+/bench/", "^test/", "\\.config\\."];
const entries = ["main", "worker-main", "isolate-main"].map((name) => `^services/[^/]+/src/${name}\\.ts$`);

/** @type {import("dependency-cruiser").IConfiguration} */
export default {
  forbidden: [
    {
      name: "no-circles",
      comment: "Two modules that import each other are one module in two files.",
      severity: "error",
      from: { pathNot: "/gen/" },
      to: { circular: true },
    },
    {
      name: "services-stay-apart",
      comment: "Services speak gRPC, HTTP and NATS; none imports another.",
      severity: "error",
      from: { path: "^services/([^/]+)/" },
      to: { path: "^services/(?!$1/)" },
    },
    {
      name: "services-are-not-libraries",
      comment: "Whatever package is added, only suites and the local stack may reach into a service.",
      severity: "error",
      from: { pathNot: ["^services/", "^test/", "^deploy/"] },
      to: { path: "^services/" },
    },
    {
      name: "libraries-below-services",
      comment: "A library does not know the services that use it.",
      severity: "error",
      from: { path: "^libs/", pathNot: "\\.test\\.ts$" },
      to: { path: "^(services|test|deploy)/" },
    },
    {
      name: "sdk-stands-alone",
      comment: "Project code, browsers and the command line load the SDK: it imports no other workspace.",
      severity: "error",
      from: { path: "^libs/sdk/" },
      to: { path: "^(libs/(?!sdk/)|services/|test/)" },
    },
    {
      name: "sdk-without-node",
      comment: "Only the Node client, the command line and the test kit may use Node's modules.",
      severity: "error",
      from: { path: "^libs/sdk/src/", pathNot: "^libs/sdk/src/(node|cli)/|^libs/sdk/src/stream/test-support|\\.test\\.ts$" },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "examples-use-the-sdk-alone",
      comment: "What ships as an example imports what its reader can import.",
      severity: "error",
      from: { path: "^docs/examples/" },
      to: { path: "^(services/|libs/(?!sdk/)|test/|deploy/)" },
    },
    {
      name: "contracts-at-the-bottom",
      comment: "A contract says what a concern promises; it imports other contracts and libraries only.",
      severity: "error",
      from: { path: "^services/[^/]+/src/.+contract\\.ts$" },
      to: { path: "^services/", pathNot: "contract\\.ts$" },
    },
    {
      name: "main-on-top",
      comment: "main composes; nothing imports it.",
      severity: "error",
      from: { pathNot: notShipped },
      to: { path: entries },
    },
    {
      name: "edges-above-concerns",
      comment: "A concern does not know the API in front of it.",
      severity: "error",
      from: { path: "^services/[^/]+/src/", pathNot: ["^services/[^/]+/src/api/", ...entries, ...notShipped] },
      to: { path: "^services/[^/]+/src/api/" },
    },
    {
      name: "tests-stay-out",
      comment: "Code that ships does not import test support.",
      severity: "error",
      from: { path: "^(services|libs)/", pathNot: [...notShipped, "^libs/testing/"] },
      to: { path: "^libs/testing/|\\.test\\.ts$" },
    },
    {
      name: "declared-packages",
      comment: "A package that is imported is declared by the workspace that imports it, as a runtime dependency.",
      severity: "error",
      from: { path: "^(services|libs)/", pathNot: notShipped },
      to: { dependencyTypes: ["npm-dev", "npm-no-pkg", "npm-unknown", "unknown"] },
    },
    {
      name: "resolvable",
      comment: "An import that resolves to nothing fails at run time.",
      severity: "error",
      from: {},
      to: { couldNotResolve: true, pathNot: "^cloudflare:" },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    exclude: { path: "(^|/)dist/|^libs/proto/src/gen/" },
    tsPreCompilationDeps: true,
    combinedDependencies: false,
    moduleSystems: ["es6", "cjs"],
    tsConfig: { fileName: "tsconfig.base.json" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["iterate-source", "import", "node", "types", "default"],
      extensions: [".ts", ".js", ".mjs", ".d.ts"],
    },
  },
};
