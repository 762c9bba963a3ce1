/**
 * How far a partition's commit feed is worked off. Pages of the feed are noted as they are read; the watermark may move behind a page
 * once nothing in it, or before it, is owed. Pure bookkeeping: what is owed is asked of the caller.
 *
 * A commit is settled when every subscription of its context is at rest beyond it, halted, or has a durable reason to come back
 * (a due time, or the mark `behind`). Anything else holds the watermark.
 */

/** What one page of the feed obliges to. */
export interface FeedPage {
  /** Position after the page. */
  readonly position: string;
  /** Contexts of the page with the last offset committed to each in it. */
  readonly commits: ReadonlyMap<string, number>;
}

/** Answers whether nothing is owed for the commits of a context up to an offset. */
export type IsSettled = (context: string, through: number) => boolean;

export class Watermark {
  #pages: { readonly position: string; readonly commits: Map<string, number> }[] = [];
  #position: string;

  /** @param position where the stored watermark stands. */
  constructor(position: string) {
    this.#position = position;
  }

  /** Nothing at or below it is owed. */
  get position(): string {
    return this.#position;
  }

  /** Where the feed has been read to: the newest page noted, else where the watermark stands. */
  get noted(): string {
    return this.#pages.at(-1)?.position ?? this.#position;
  }

  /** Pages noted and not yet passed. */
  get pending(): number {
    return this.#pages.length;
  }

  note(page: FeedPage): void {
    this.#pages.push({ position: page.position, commits: new Map(page.commits) });
  }

  /** Passes every leading page that is settled. True when the position moved. */
  advance(isSettled: IsSettled): boolean {
    let passed = 0;
    for (const page of this.#pages) {
      for (const [context, through] of page.commits) {
        if (!isSettled(context, through)) break;
        page.commits.delete(context);
      }
      if (page.commits.size > 0) break;
      this.#position = page.position;
      passed += 1;
    }
    this.#pages.splice(0, passed);
    return passed > 0;
  }

  /** What holds the watermark: each context with the highest offset owed to it. */
  owed(isSettled: IsSettled): Map<string, number> {
    const owed = new Map<string, number>();
    for (const { commits } of this.#pages) {
      for (const [context, through] of commits) {
        if (!isSettled(context, through)) owed.set(context, Math.max(through, owed.get(context) ?? 0));
      }
    }
    return owed;
  }
}
