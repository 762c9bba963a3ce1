/** Variables of the build worker, beyond those of every service. */
import { defineConfig, integer } from "@iterate-platform/service/config";

export const workerConfig = defineConfig({
  jobs: integer(
    "BUILD_MAX_JOBS",
    { min: 1, max: 64 },
    { description: "Builds that run at a time; eight times as many wait.", default: "2" },
  ),
  jobCpuS: integer("BUILD_CPU_S", { min: 1, max: 600 }, { description: "CPU of each process of a build, seconds.", default: "30" }),
  jobMemoryMiB: integer(
    "BUILD_MEMORY_MIB",
    { min: 896, max: 65_536 },
    {
      description: "Private memory of each process of a build, MiB; the runtime sets about 540 of them aside when it starts.",
      default: "1280",
    },
  ),
});
