/**
 * The base of every object a client may hold over `/api`. A name it does not have answers NOT_A_METHOD. Everything on a prototype is
 * callable from outside, so what is private here is `#private`, never `private`.
 */
import { RpcTarget } from "capnweb";
import { CodedError, codedError, isCodedError } from "iterate/lib";

/** Names that the runtime, not a client, asks every object for. */
const runtimeNames = new Set(["then", "catch", "finally", "toJSON", "constructor"]);

const unknownNames = new Proxy(Object.create(RpcTarget.prototype as object) as RpcTarget, {
  get(target, name, receiver): unknown {
    if (typeof name === "symbol" || runtimeNames.has(name) || name in target) return Reflect.get(target, name, receiver);
    return () => {
      throw codedError(
        "NOT_A_METHOD",
        `there is no method ${JSON.stringify(name.slice(0, 80))} here; see the package iterate, iterate/api`,
      );
    };
  },
});

export class ApiTarget extends RpcTarget {}
Object.setPrototypeOf(ApiTarget.prototype, unknownNames);

/**
 * What a client is sent for a failure: the code, the message and the data, no stack. Anything without a code is a fault of ours: `report`
 * logs it and answers what to quote.
 */
export function errorForClient(error: unknown, report: (error: unknown) => string): Error {
  const coded = isCodedError(error) ? error : new CodedError("INTERNAL", `a fault of the platform, logged as ${report(error)}`);
  const plain = Object.assign(new Error(coded.message), { code: coded.code, data: coded.data, retryable: coded.retryable });
  delete plain.stack;
  return plain;
}
