import type { IncomingMessage } from "node:http";

/** The one value of a header; several of one name count as none, because which of them was signed for cannot be known. */
export function singleHeader(request: IncomingMessage, name: string): string | undefined {
  const values = request.headersDistinct[name];
  return values?.length === 1 ? values[0] : undefined;
}
