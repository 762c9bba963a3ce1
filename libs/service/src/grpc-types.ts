/** The shapes of generated service definitions and, derived from them, of handlers and clients. */
import type { CallContext, RawCall } from "./grpc-call.js";

/** One method of a generated definition. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- a method of unknown messages takes and gives what its own code does
export interface MethodDefinition<Request = any, Response = any> {
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  readonly requestSerialize: (value: Request) => Buffer;
  readonly requestDeserialize: (value: Buffer) => Request;
  readonly responseSerialize: (value: Response) => Buffer;
  readonly responseDeserialize: (value: Buffer) => Response;
}

/** A generated definition: `XService` as ts-proto emits it. */
export type ServiceDefinition = Readonly<Record<string, MethodDefinition>>;

/** A generated client constructor: `XClient`. Only its definition and name are used. */
export interface ClientConstructor<Definition extends ServiceDefinition = ServiceDefinition> {
  readonly service: Definition;
  readonly serviceName: string;
}

export type RequestOf<Method> = Method extends { requestDeserialize: (value: Buffer) => infer Request } ? Request : never;
export type ResponseOf<Method> = Method extends { responseDeserialize: (value: Buffer) => infer Response } ? Response : never;

/**
 * A message that gives its own bytes, for answers that are cheaper to make as such. Whoever takes it in this process finds the fields of
 * its type; the server asks for the bytes instead, once, and sends them as they are.
 */
export abstract class EncodedMessage {
  abstract encoded(): Uint8Array;

  /** A stream needs the bytes no more; not told when it ends before. */
  abstract sent(): void;
}

/** A handler of each of the four kinds. Stream handlers are pulled: they produce no faster than the peer takes. */
export type HandlerOf<Method> = Method extends { requestStream: false; responseStream: false }
  ? (request: RequestOf<Method>, call: CallContext) => Promise<ResponseOf<Method>> | ResponseOf<Method>
  : Method extends { requestStream: false }
    ? (request: RequestOf<Method>, call: CallContext) => AsyncIterable<ResponseOf<Method>>
    : Method extends { responseStream: false }
      ? (requests: AsyncIterable<RequestOf<Method>>, call: CallContext) => Promise<ResponseOf<Method>>
      : (requests: AsyncIterable<RequestOf<Method>>, call: CallContext) => AsyncIterable<ResponseOf<Method>>;

/** Takes over a bidirectional call for streams whose cost per message matters; see `raw`. */
export interface RawHandler<Request, Response> {
  readonly raw: (call: RawCall<Request, Response>) => Promise<void>;
}

export type RawHandlerOf<Method> = Method extends { requestStream: true; responseStream: true }
  ? RawHandler<RequestOf<Method>, ResponseOf<Method>>
  : never;

/** Handlers of a definition; a method without one answers NOT_A_METHOD. */
export type Handlers<Definition> = {
  readonly [Name in keyof Definition]?: HandlerOf<Definition[Name]> | RawHandlerOf<Definition[Name]>;
};

/**
 * Marks a handler that works on the call itself: it reads by `call.onRequest`/`pause`, writes by `call.send`, and its promise ends
 * the call. Authentication, errors, limits and drain stay the server's.
 */
export function raw<Request, Response>(
  handler: (call: RawCall<Request, Response>) => Promise<void>,
): RawHandler<Request, Response> {
  return { raw: handler };
}
