/**
 * Types that had another name once, by the old name. A rename ships here together with the migration of the stores that hold the old
 * one; an append under it is refused with the new name.
 */
export interface Rename {
  /** Full type as it is called now. */
  readonly to: string;
  /** File of the migration that renames what is stored, from the root of the repository. */
  readonly migration: string;
}

export type Renames = ReadonlyMap<string, Rename>;

export const renamedTypes: Renames = new Map();
