/** Variables of the bundler, beyond those of every service. */
import { defineConfig, integer, listen, optional, text, url } from "@iterate-platform/service/config";

export const bundlerConfig = defineConfig({
  httpListen: listen("HTTP_LISTEN", { description: "Where git's smart protocol is served to ingress.", default: "127.0.0.1:0" }),
  contextUrl: url("CONTEXT_URL", ["http", "https"], {
    description: "The context service, which is told of every ref update.",
    default: "http://127.0.0.1:7410",
  }),
  buildWorkerUrl: url("BUILD_WORKER_URL", ["http", "https"], {
    description: "The build workers.",
    default: "http://127.0.0.1:7415",
  }),
  reposDir: optional(
    text("REPOS_DIR", {
      description: "Folder of this pod's cache of repositories, used by no other process; a temporary one when unset.",
    }),
  ),
  maxPackMiB: integer(
    "REPO_MAX_PUSH_MIB",
    { min: 1, max: 1024 },
    { description: "Largest push, MiB as git packs it.", default: "64" },
  ),
  maxFileMiB: integer("REPO_MAX_FILE_MIB", { min: 1, max: 512 }, { description: "Largest file of a push, MiB.", default: "16" }),
  maxRepoMiB: integer(
    "REPO_QUOTA_MIB",
    { min: 1, max: 65_536 },
    { description: "Largest repository, MiB of packs.", default: "512" },
  ),
  gitProcesses: integer(
    "GIT_MAX_PROCESSES",
    { min: 1, max: 256 },
    { description: "Pushes and fetches served at a time; four times as many wait.", default: "8" },
  ),
  gitDeadlineMs: integer(
    "GIT_DEADLINE_MS",
    { min: 1000, max: 3_600_000 },
    { description: "Bound of one push or fetch, milliseconds.", default: "300000" },
  ),
  gitMemoryMiB: integer(
    "GIT_MEMORY_MIB",
    { min: 256, max: 65_536 },
    { description: "Private memory of one git process, MiB.", default: "768" },
  ),
});
