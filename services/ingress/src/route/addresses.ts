/** Addresses: which project a request of the project listener is for, and what is told to people. Pure. */
import type { WebhookEndpoint } from "../project/contract.js";
import type { Addresses } from "../session/session-scope.js";

export interface ProjectAddress {
  /** Slug of the project. */
  readonly slug: string;
  /** What the project's pages hang under, without a slash at the end: links inside them start with it. */
  readonly basePath: string;
  /** Path and query as the project's code sees them. */
  readonly path: string;
}

/**
 * Splits `/projects/<slug>/rest?query`. Null when the request is for no project; `redirect` when the slash behind the slug is missing,
 * without which relative links of the page would leave the project.
 */
export function projectAddressOf(url: string): ProjectAddress | { readonly redirect: string } | null {
  const match = /^\/projects\/([a-z0-9-]{1,63})(\/[^?]*)?(\?.*)?$/.exec(url);
  if (match === null) return null;
  const [, slug = "", rest, query = ""] = match;
  const basePath = `/projects/${slug}`;
  return rest === undefined ? { redirect: `${basePath}/${query}` } : { slug, basePath, path: rest + query };
}

/** `/git/<project>/<repo>.git/<rest>?query`; null for anything else. */
export function gitAddressOf(url: string): { readonly project: string; readonly repoPath: string; readonly rest: string } | null {
  const match =
    /^\/git\/([a-z0-9_-]{1,63})\/([a-z0-9-]{1,63})\.git\/((?:info\/refs|git-upload-pack|git-receive-pack)(?:\?.*)?)$/.exec(url);
  return match === null ? null : { project: match[1] ?? "", repoPath: `/repos/${match[2]}`, rest: match[3] ?? "" };
}

export function addressesOf(publicBaseUrl: string, projectBase: string): Addresses {
  const scheme = new URL(publicBaseUrl).protocol;
  return {
    project: (slug) => `${scheme}//${projectBase}/projects/${slug}/`,
    git: (slug) => `${publicBaseUrl}/git/${slug}/config.git`,
    webhook: (endpoint: WebhookEndpoint) => `${publicBaseUrl}/api/integrations/${endpoint.provider}/webhook/${endpoint.id}`,
  };
}
