/** Which deployment to talk to, and with which credential. */
import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { ConnectIterateOptions } from "../node/connect-iterate.js";
import { codedError } from "../lib/coded-error.js";
import { UsageError } from "./failure.js";
import type { Surroundings } from "./surroundings.js";

export interface ConnectionFlags {
  readonly baseUrl?: string;
  readonly tokenFile?: string;
}

const defaultBaseUrl = "http://localhost:7400";
/** Where the one-machine stack keeps its token, below the folder it was started in. */
const stackTokenFile = join(".iterate", "admin-token");

/** The flag wins over the variable, the variable over the token file of the stack this folder is in. Throws UNAUTHENTICATED without any. */
export function connectionSettings(
  flags: ConnectionFlags,
  { env, cwd }: Surroundings,
): Pick<ConnectIterateOptions, "baseUrl" | "auth"> {
  const baseUrl = flags.baseUrl ?? (env["ITERATE_BASE_URL"] || defaultBaseUrl);
  if (!URL.canParse(baseUrl) || !/^https?:$/.test(new URL(baseUrl).protocol))
    throw new UsageError(
      `the base URL ${JSON.stringify(baseUrl)} must be an http or https address, for example http://localhost:7400`,
    );
  const secret =
    flags.tokenFile !== undefined ? namedToken(resolve(cwd, flags.tokenFile)) : env["ITERATE_ADMIN_TOKEN"] || stackToken(cwd);
  if (!secret) {
    throw codedError(
      "UNAUTHENTICATED",
      `no admin token: set ITERATE_ADMIN_TOKEN, pass --token-file, or run below the folder whose ${stackTokenFile} the stack made`,
    );
  }
  return { baseUrl, auth: { type: "admin-secret", secret } };
}

function namedToken(path: string): string {
  const token = read(path);
  if (token === undefined) throw new UsageError(`the token file ${path} cannot be read`);
  if (token === "") throw new UsageError(`the token file ${path} is empty`);
  return token;
}

function stackToken(folder: string): string | undefined {
  const token = read(join(folder, stackTokenFile));
  return token !== undefined || dirname(folder) === folder ? token : stackToken(dirname(folder));
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return undefined;
  }
}
