/** The modules of bundles, kept in memory by recency within a budget, so that a process that ended starts again without asking. */
import { bundleKey, type Bundle, type BundleRef } from "./bundle.js";

export class BundleStore {
  readonly #maxBytes: number;
  readonly #bundles = new Map<string, Bundle>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The bundle, which is now the most recently used; `undefined` when its modules must be sent. */
  get(ref: BundleRef): Bundle | undefined {
    const key = bundleKey(ref);
    const bundle = this.#bundles.get(key);
    if (bundle === undefined) return undefined;
    this.#bundles.delete(key);
    this.#bundles.set(key, bundle);
    return bundle;
  }

  /** Keeps the bundle; the least recently used ones leave until all fit, but never the one just kept. */
  put(bundle: Bundle): void {
    this.#delete(bundleKey(bundle));
    this.#bundles.set(bundleKey(bundle), bundle);
    this.#bytes += bytesOf(bundle);
    for (const key of this.#bundles.keys()) {
      if (this.#bytes <= this.#maxBytes || this.#bundles.size === 1) return;
      this.#delete(key);
    }
  }

  #delete(key: string): void {
    const bundle = this.#bundles.get(key);
    if (bundle === undefined) return;
    this.#bundles.delete(key);
    this.#bytes -= bytesOf(bundle);
  }
}

function bytesOf(bundle: Bundle): number {
  return bundle.modules.reduce((sum, module) => sum + module.data.byteLength, 0);
}
