/** Tags outgoing requests with their invocation, so that a refused one is recorded where it was made. Evaluated before the project. */
import { scopes } from "./scope.js";

const send = globalThis.fetch;

globalThis.fetch = function fetch(input, init) {
  const scope = scopes.getStore();
  if (scope === undefined) return send(input, init);
  const request = new Request(input, init);
  request.headers.set("x-iterate-ordinal", String(scope.ordinal));
  return send(request);
};
