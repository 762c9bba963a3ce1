/** What a request to a project's pages needs from the rest of the runner. */
import type { ExecutionClaims } from "@iterate-platform/service/trust";

/** Claims of code that runs for a request: outside any delivery, in the root of the project. */
export interface RequestClaims {
  /** Fresh claims for one request. @throws UNAVAILABLE. */
  claims(owner: string, code: string, principal: string | undefined): Promise<ExecutionClaims>;
  mint(claims: ExecutionClaims): Promise<string>;
}
