/** The event types a release knows, and the format in which it writes each. */
import { eventCatalog, platformPrefix, renamedTypes, type EventTypeDeclaration, type Renames } from "iterate/events";

export interface VocabularyOptions {
  /** The types known; those of the release when absent. */
  readonly catalog?: ReadonlyMap<string, EventTypeDeclaration>;
  readonly renamed?: Renames;
  /** Newest format that may be written, by full type. */
  readonly writes?: ReadonlyMap<string, number>;
}

export class Vocabulary {
  readonly #catalog: ReadonlyMap<string, EventTypeDeclaration>;
  readonly #renamed: Renames;
  readonly #writes: ReadonlyMap<string, number>;

  constructor({ catalog = eventCatalog, renamed = renamedTypes, writes = new Map() }: VocabularyOptions = {}) {
    this.#catalog = catalog;
    this.#renamed = renamed;
    this.#writes = writes;
  }

  declarationOf(type: string): EventTypeDeclaration | undefined {
    return this.#catalog.get(type);
  }

  /** What a type that no longer exists is called now. */
  newNameOf(type: string): string | undefined {
    return this.#renamed.get(type)?.to;
  }

  /**
   * The newest format in which events of a type may be written: one behind the newest known, which the release before can read, until
   * the deployment allows more.
   */
  writtenFormat({ type, formatVersion }: EventTypeDeclaration): number {
    return this.#writes.get(type) ?? Math.max(1, formatVersion - 1);
  }
}

/**
 * Parses `<namespace>/<event>=<format>,…`: the formats a deployment allows to be written.
 *
 * @throws RangeError, a plain sentence starting with a verb: what the first part that is no format of this release holds.
 */
export function parseWrittenFormats(text: string, catalog = eventCatalog): ReadonlyMap<string, number> {
  const writes = new Map<string, number>();
  for (const part of text.split(",").map((part) => part.trim())) {
    if (part === "") continue;
    const [, name, version] = /^([a-z0-9/-]+)=([1-9][0-9]{0,8})$/.exec(part) ?? [];
    const declared = name === undefined ? undefined : catalog.get(platformPrefix + name);
    if (declared === undefined)
      throw new RangeError(`holds ${JSON.stringify(part)}, which is not <namespace>/<event>=<format> of a known type`);
    if (Number(version) > declared.formatVersion)
      throw new RangeError(`allows format ${version} of ${name}; this release knows it up to ${declared.formatVersion}`);
    writes.set(declared.type, Number(version));
  }
  return writes;
}
