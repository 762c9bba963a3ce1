/** What a build worker tells a job's process and what that process answers. */
import type { BuildLimits, BuiltEntry, ModuleKind } from "./contract.js";
import type { PlatformModules } from "./platform-modules.js";

/** The parts of its envelope are the files' bytes, in order. */
export interface JobRequest {
  readonly entries: readonly string[];
  readonly files: readonly { readonly path: string; readonly symlink: boolean }[];
  readonly platform: PlatformModules;
  readonly limits: BuildLimits;
}

/** With `built`, the parts of its envelope are the modules' bytes, in order. */
export type JobReply =
  | {
      readonly kind: "built";
      readonly entries: readonly BuiltEntry[];
      readonly modules: readonly { readonly name: string; readonly kind: ModuleKind }[];
    }
  | { readonly kind: "refused"; readonly message: string; readonly problems: unknown }
  | { readonly kind: "crashed"; readonly message: string };
