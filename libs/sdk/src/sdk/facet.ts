/** Durable classes that a context hosts under a name. */
import type { Itx } from "../api/itx.js";
import { currentInvocation } from "./isolate.js";
import { openItx } from "./itx.js";

export class FacetDurableObject {
  /** The only methods that callers reach. */
  static readonly publicMethods: readonly string[] = [];

  /** A scope on the context that hosts the facet. Bind it with `using`, in the smallest block that calls it. */
  protected getItx(): Itx {
    const { itx, contextPath } = currentInvocation();
    return openItx(itx, contextPath);
  }
}
