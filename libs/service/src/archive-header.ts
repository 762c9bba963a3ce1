/** The first line of an archive: what it is, of what, and in which version of the format. */
import { codedError } from "iterate/lib";

/** Version of archives written by this release; it reads no newer one. */
export const archiveVersion = 1;

/** Longest first line. */
export const maxHeaderBytes = 4_096;

export interface ArchiveHeader {
  /** Everything of a project, or one context of it. */
  readonly of: "project" | "context";
  /** Id of the project. */
  readonly owner: string;
  /** Slug the project had when it was exported. */
  readonly slug: string;
  /** ISO 8601. */
  readonly exportedAt: string;
}

export function archiveHeaderLine(header: ArchiveHeader): string {
  return JSON.stringify({ kind: "iterate-archive", version: archiveVersion, ...header });
}

/**
 * Reads the first line of an archive.
 *
 * @throws CodedError INVALID_INPUT when it is none; UPGRADE_REQUIRED when a newer release wrote it.
 */
export function readArchiveHeader(line: string): ArchiveHeader {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    value = undefined;
  }
  const { kind, version, of, owner, slug, exportedAt } = (typeof value === "object" && value !== null ? value : {}) as Record<
    string,
    unknown
  >;
  if (kind !== "iterate-archive" || typeof version !== "number" || !Number.isInteger(version) || version < 1)
    throw codedError("INVALID_INPUT", "this is no archive of Iterate: its first line does not say so");
  if (version > archiveVersion)
    throw codedError(
      "UPGRADE_REQUIRED",
      `the archive has version ${version}; this release reads up to ${archiveVersion}: upgrade it`,
      {
        version,
        supported: archiveVersion,
      },
    );
  if (
    (of !== "project" && of !== "context") ||
    typeof owner !== "string" ||
    !/^prj_[0-9a-hjkmnp-tv-z]{26}$/.test(owner) ||
    typeof slug !== "string" ||
    typeof exportedAt !== "string"
  )
    throw codedError("INVALID_INPUT", "line 1 of the archive does not say of which project it is");
  return { of, owner, slug, exportedAt };
}
