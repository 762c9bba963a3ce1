/** What tools/helm-reference.mjs derives: the variables each service declares, and the files of the chart that are made from them. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { repositoryRoot } from "./helm.js";

export interface Variable {
  name: string;
  expected: string;
  isRequired: boolean;
  isSecret: boolean;
}

export interface Reference {
  /** By the service's block of values. */
  variables: Record<string, Variable[]>;
  /** Texts by path in charts/iterate. */
  files: Record<string, string>;
}

/** Starts each service's program once for `--print-config-docs`. */
export function readReference(): Reference {
  const printed = execFileSync(process.execPath, [join(repositoryRoot, "tools/helm-reference.mjs"), "--print"], {
    encoding: "utf8",
    timeout: 120_000,
    maxBuffer: 16 * 2 ** 20,
  });
  return JSON.parse(printed) as Reference;
}
