/** What `describe` answers: all that somebody who knows nothing else needs to call what is described. */

/** `bound`: it answers. `masked`: a rule says that it does not. `dangling`: a rule leads to nothing. `offline`: its service is away. */
export type CapabilityState = "bound" | "masked" | "dangling" | "offline";

export interface Description {
  /** What is described, as text: `itx` for a whole context. */
  readonly expression: string;
  /** Path of the context it was asked of. */
  readonly path: string;
  readonly state: CapabilityState;
  /** What it is, one sentence. */
  readonly summary: string;
  /** How it is used, in prose; empty when nobody said. */
  readonly instructions: string;
  /** TypeScript declarations: of what it takes and answers, and of the types its signatures name. */
  readonly types: string;
  /** Its methods, as they are called here. */
  readonly methods: readonly DescribedMethod[];
  /** The rules that make it what it is, first to last; none when the platform answers it by itself. */
  readonly rules: readonly DescribedRule[];
  /** What can be described further: of a context everything it answers, else rules about longer calls. */
  readonly entries: readonly DescribedEntry[];
  /** What it stands for: an expression at the fixed point, and the context that answers it; null unless it is bound. */
  readonly standsFor: { readonly path: string; readonly expression: string } | null;
  /** Whether whoever asked may call it. */
  readonly mayCall: boolean;
  /** Why not, when they may not. */
  readonly refusal: { readonly code: string; readonly message: string } | null;
  /** All of it as words, to be read by a person or a model. */
  readonly text: string;
}

export interface DescribedMethod {
  /** Names up to it: `itx.kv.get`, `itx.facets.get().snapshot`. */
  readonly call: string;
  /** TypeScript: `(key: string) => Promise<KvEntry | null>`. */
  readonly signature: string;
  readonly description: string;
  /** A call of it as text. */
  readonly example: string;
  /** `write` when it may change something. */
  readonly effect: "read" | "write";
}

export interface DescribedRule {
  /** Path of the context whose table it is in. */
  readonly path: string;
  readonly match: string;
  /** Null for a mask. */
  readonly target: string | null;
  readonly description: string;
  /** Offset of the event that set it, in the log of that context. */
  readonly configuredAtOffset: number;
  /** Who set it; null when the log does not keep that event any more. */
  readonly by: { readonly origin: string; readonly principal: string | null; readonly isPlatform: boolean } | null;
}

export interface DescribedEntry {
  readonly expression: string;
  readonly summary: string;
  readonly state: CapabilityState;
}
