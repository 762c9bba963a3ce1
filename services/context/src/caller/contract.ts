/** Who writes, as the platform vouches for it. Made from the authenticated caller alone, never from a request. */
export interface Cause {
  /** `<ISO time> with <origin kind> ~<nonce>`; never an address. */
  readonly chain: string;
  /** Reactions between the start of the chain and this write. */
  readonly depth: number;
}

export interface Writer {
  /** `code`: under an execution token. `person`: someone through the edge. `service`: a service of the platform for itself. */
  readonly kind: "code" | "person" | "service";
  /** Path of the context whose code or session writes; `null` stands for the path written to. */
  readonly origin: string | null;
  readonly cause: Cause;
  readonly principal: string | null;
  /** True for records of the platform itself. */
  readonly isPlatform: boolean;
  /** Set for what a builtin writes: the rules of the contexts it was called through have answered that call. */
  readonly isByRules?: true;
  /** Owner whose contexts this writer may write to; `null` means any. */
  readonly owner: string | null;
  /** The lease the writer works under; commits of an older epoch of the same partition are refused. */
  readonly lease: { readonly partition: number; readonly epoch: number } | null;
}
