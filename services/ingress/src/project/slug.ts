/** Names that people give and that become DNS labels: project slugs and names of webhook connections. */
import { codedError } from "iterate/lib";

/** Longest DNS label (RFC 1035). */
export const maxLabelLength = 63;

const label = /^[a-z]([a-z0-9-]*[a-z0-9])?$/;

/** Labels that would shadow an address of the platform. */
const reserved = new Set(["api", "www", "files", "git", "sdk", "console", "global"]);

/**
 * Throws INVALID_INPUT unless `value` is a letter-first lower-case DNS label of at most 63 characters. `--` is refused because it
 * separates the route from the project in a hostname. Not retryable.
 */
export function assertLabel(field: string, value: string): void {
  const problem =
    value.length > maxLabelLength
      ? `is ${value.length} characters long, more than ${maxLabelLength}`
      : !label.test(value)
        ? "is not a lower-case DNS label that starts with a letter"
        : value.includes("--")
          ? "holds '--', which separates parts of a hostname"
          : null;
  if (problem !== null) {
    throw codedError("INVALID_INPUT", `${field} ${JSON.stringify(value.slice(0, 80))} ${problem}; use for example "my-project"`, {
      field,
    });
  }
}

/** As `assertLabel`, and not a name the platform uses itself. */
export function assertProjectSlug(slug: string): void {
  assertLabel("slug", slug);
  if (reserved.has(slug))
    throw codedError("INVALID_INPUT", `slug ${JSON.stringify(slug)} is reserved; choose another`, { field: "slug" });
}
