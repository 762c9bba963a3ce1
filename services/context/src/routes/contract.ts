/** Fetch routes: which capability of a project answers an HTTP request. Kept by the root of a project. */
import type { Expression } from "iterate/expression";

export interface FetchRouteRow {
  readonly name: string;
  readonly requestMatcher: RequestMatcher;
  readonly target: Expression;
  /** `null`: anybody may ask. */
  readonly authRequirement: "project-members" | null;
  readonly priority: number;
  /** Offset of the event that set it. */
  readonly configuredAtOffset: number;
}

/** Everything it names must match; what it does not name matches anything. */
export interface RequestMatcher {
  readonly routingSlug?: string | undefined;
  /** Patterns by component. */
  readonly url?: Readonly<Record<string, string | undefined>> | undefined;
  /** Exact values by name, whose case means nothing. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** Rows by name. */
export type FetchRoutes = Readonly<Record<string, FetchRouteRow>>;

/** What a request is matched by. */
export interface RoutedRequest {
  readonly url: URL;
  /** Of the address it came to; `null` at the project's apex. */
  readonly routingSlug: string | null;
  /** Values by name. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Where requests go that no route takes. */
export interface IngressState {
  readonly target: Expression;
  readonly configuredAtOffset: number;
}
