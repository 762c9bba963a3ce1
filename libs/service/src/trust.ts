/**
 * Trust between services. A call carries a service token (who calls whom, one minute, signed by the caller's key) and, when it is
 * made for running code, an execution token that the runner signed; both are verified offline against the trusted keys. Keys are
 * re-read when their files change, so they rotate under traffic.
 */
import { stat } from "node:fs/promises";
import { decodeProtectedHeader, errors, jwtVerify, SignJWT, type CryptoKey, type JWTPayload } from "jose";
import { codedError } from "iterate/lib";
import type { Caller, ExecutionClaims } from "./caller.js";
import { loadPrivateKey, loadTrustedKeys } from "./keys.js";
import { TokenCache } from "./token-cache.js";

export { generateKeys, keyFiles, type KeyFiles } from "./keys.js";
export { authorize, type Caller, type ExecutionClaims, type MethodPolicy, type Presence } from "./caller.js";

/** Metadata (gRPC) and header (HTTP) names a call's credentials travel under. */
export const credentialHeaders = {
  service: "authorization",
  execution: "x-iterate-execution",
  principal: "x-iterate-principal",
} as const;

export interface TrustOptions {
  /** This process's service name: issuer of its tokens and audience of those it takes. */
  readonly service: string;
  /** Private key file; without one this process verifies but calls nobody. */
  readonly keyFile?: string | undefined;
  readonly trustedKeysFile: string;
  readonly nowMs?: () => number;
}

/** Credentials that accompany one call. */
export interface CallCredentials {
  /** Execution token as minted by `mintExecution`. */
  readonly execution?: string | undefined;
  readonly principal?: string | undefined;
}

const serviceTokenSeconds = 60;
/** A service token is renewed this long before it expires, so none expires on its way. */
const renewBeforeMs = 20_000;
/** Tolerated difference of two machines' clocks. */
const clockToleranceSeconds = 5;
/** Longest token text that is looked at. */
const maxTokenLength = 8_192;
/** Longest principal, as the log stores it. */
const maxPrincipalLength = 512;
/** Key files are looked at again this often when asked, and at once (but once a second) for a key id never seen. */
const keyCheckMs = 15_000;
const maxCachedTokens = 10_000;
/** The only service whose key may sign execution tokens. */
const executionIssuer = "runner";
const executionAudience = "iterate-execution";
const algorithm = "EdDSA";

type Verify<Claims> = (token: string) => Promise<{ claims: Claims; expiresAtMs: number }>;

export class Trust {
  readonly service: string;
  readonly #options: TrustOptions;
  readonly #nowMs: () => number;
  readonly #services: TokenCache<string>;
  readonly #executions: TokenCache<ExecutionClaims>;
  readonly #minted = new Map<string, { token: string; renewAtMs: number }>();
  readonly #minting = new Map<string, Promise<string>>();
  #trusted: Map<string, { service: string; key: CryptoKey }> = new Map();
  #signing: { kid: string; key: CryptoKey } | null = null;
  #stamps = "";
  #checkedAtMs = 0;
  #checking: Promise<void> | null = null;

  private constructor(options: TrustOptions) {
    this.service = options.service;
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#services = new TokenCache({ nowMs: this.#nowMs, maxEntries: maxCachedTokens });
    this.#executions = new TokenCache({ nowMs: this.#nowMs, maxEntries: maxCachedTokens });
  }

  /** Reads the key files. Throws INVALID_INPUT naming the file that is missing or malformed, or a key of another service. */
  static async load(options: TrustOptions): Promise<Trust> {
    const trust = new Trust(options);
    await trust.#readKeys();
    return trust;
  }

  /** A token for calling `audience`: at once while a fresh one is held. Throws UNAUTHENTICATED when this process has no key. */
  serviceToken(audience: string): string | Promise<string> {
    const minted = this.#minted.get(audience);
    if (minted !== undefined && minted.renewAtMs > this.#nowMs()) return minted.token;
    const minting = this.#minting.get(audience);
    if (minting !== undefined) return minting;
    const promise = this.#mintService(audience).finally(() => this.#minting.delete(audience));
    this.#minting.set(audience, promise);
    return promise;
  }

  /** Signs what code is running until `claims.exp`. Only the runner's tokens are accepted by anyone. */
  async mintExecution(claims: ExecutionClaims): Promise<string> {
    return this.#sign("execution+jwt", { ...claims, iss: this.service, aud: executionAudience });
  }

  /** The service that signed `token` for this one. Throws UNAUTHENTICATED. */
  verifyService(token: string): string | Promise<string> {
    return this.#services.claims(token, this.#verifyService);
  }

  /** The claims of an execution token. Throws UNAUTHENTICATED. */
  verifyExecution(token: string): ExecutionClaims | Promise<ExecutionClaims> {
    return this.#executions.claims(token, this.#verifyExecution);
  }

  /**
   * Who makes a call, by its headers (`header` answers one by its lower-case name). An execution token's principal is the call's
   * principal; a header that says otherwise is refused. Throws UNAUTHENTICATED.
   */
  authenticate(header: (name: string) => string | undefined): Caller | Promise<Caller> {
    const authorization = header(credentialHeaders.service);
    if (authorization === undefined) throw unauthenticated("the call carries no service token");
    if (!authorization.startsWith("Bearer ")) throw unauthenticated("the authorization is not a bearer token");
    const service = this.verifyService(authorization.slice(7));
    const token = header(credentialHeaders.execution);
    const execution = token === undefined ? undefined : this.verifyExecution(token);
    const principal = header(credentialHeaders.principal);
    if (service instanceof Promise || execution instanceof Promise) {
      // Both are awaited together, so neither refusal is left unhandled.
      return Promise.all([service, execution]).then(([service, execution]) => callerOf(service, execution, principal));
    }
    return callerOf(service, execution, principal);
  }

  /** The headers of a call to `audience`, for gRPC metadata and HTTP alike. */
  headers(audience: string, credentials: CallCredentials = {}): Record<string, string> | Promise<Record<string, string>> {
    const token = this.serviceToken(audience);
    return typeof token === "string" ? headersOf(token, credentials) : token.then((token) => headersOf(token, credentials));
  }

  async #mintService(audience: string): Promise<string> {
    await this.#refreshKeys(keyCheckMs);
    const now = this.#nowMs();
    const token = await this.#sign("service+jwt", {
      iss: this.service,
      aud: audience,
      exp: Math.floor(now / 1000) + serviceTokenSeconds,
    });
    this.#minted.set(audience, { token, renewAtMs: now + serviceTokenSeconds * 1000 - renewBeforeMs });
    return token;
  }

  async #sign(type: string, payload: JWTPayload): Promise<string> {
    if (this.#signing === null)
      throw unauthenticated(`service ${JSON.stringify(this.service)} has no key to sign with; set ITERATE_SERVICE_KEY_FILE`);
    const { kid, key } = this.#signing;
    return new SignJWT({ ...payload, iat: Math.floor(this.#nowMs() / 1000) })
      .setProtectedHeader({ alg: algorithm, kid, typ: type })
      .sign(key);
  }

  readonly #verifyService: Verify<string> = async (token) => {
    const payload = await this.#verify("service token", "service+jwt", this.service, token);
    if (payload.exp! - payload.iat! > serviceTokenSeconds)
      throw unauthenticated(`the service token is valid for more than ${serviceTokenSeconds} s`);
    return { claims: payload.iss!, expiresAtMs: (payload.exp! + clockToleranceSeconds) * 1000 };
  };

  readonly #verifyExecution: Verify<ExecutionClaims> = async (token) => {
    const payload = await this.#verify("execution token", "execution+jwt", executionAudience, token);
    if (payload.iss !== executionIssuer)
      throw unauthenticated(`the execution token was signed by ${JSON.stringify(payload.iss)}, not by the ${executionIssuer}`);
    return { claims: executionClaims(payload), expiresAtMs: payload.exp! * 1000 };
  };

  async #verify(what: string, type: string, audience: string, token: string): Promise<JWTPayload> {
    if (token.length > maxTokenLength) throw unauthenticated(`the ${what} is longer than ${maxTokenLength} characters`);
    try {
      const { kid } = decodeProtectedHeader(token);
      if (kid === undefined || !this.#trusted.has(kid)) await this.#refreshKeys(1_000);
      else await this.#refreshKeys(keyCheckMs);
      const trusted = kid === undefined ? undefined : this.#trusted.get(kid);
      if (trusted === undefined) throw unauthenticated(`the ${what} is signed by an unknown key`);
      const { payload } = await jwtVerify(token, trusted.key, {
        algorithms: [algorithm],
        issuer: trusted.service,
        audience,
        typ: type,
        requiredClaims: ["iss", "aud", "iat", "exp"],
        clockTolerance: clockToleranceSeconds,
        currentDate: new Date(this.#nowMs()),
      });
      return payload;
    } catch (error) {
      if (!(error instanceof errors.JOSEError) && !(error instanceof TypeError)) throw error;
      const claim =
        error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired ? ` in claim ${error.claim}` : "";
      throw unauthenticated(`the ${what} is not valid (${error instanceof errors.JOSEError ? error.code : "malformed"}${claim})`);
    }
  }

  /** Reads the key files again when they changed, looking at most once per `intervalMs`; a failed read keeps the known keys. */
  #refreshKeys(intervalMs: number): Promise<void> | undefined {
    if (this.#checking !== null) return this.#checking;
    if (this.#nowMs() - this.#checkedAtMs < intervalMs) return undefined;
    this.#checking = this.#readKeys()
      .catch(() => {})
      .finally(() => (this.#checking = null));
    return this.#checking;
  }

  async #readKeys(): Promise<void> {
    this.#checkedAtMs = this.#nowMs();
    const { keyFile, trustedKeysFile } = this.#options;
    const stamps = (await Promise.all([keyFile, trustedKeysFile].map(stamp))).join();
    if (stamps === this.#stamps) return;
    const trusted = await loadTrustedKeys(trustedKeysFile);
    const signing = keyFile === undefined ? null : await loadPrivateKey(keyFile);
    const owner = signing === null ? undefined : trusted.get(signing.kid)?.service;
    if (signing !== null && owner !== this.service) {
      const problem = owner === undefined ? "a key that is not in the trusted set" : `the key of service ${JSON.stringify(owner)}`;
      throw codedError(
        "INVALID_INPUT",
        `key file ${keyFile} holds ${problem}; service ${JSON.stringify(this.service)} cannot sign with it`,
      );
    }
    this.#trusted = trusted;
    this.#signing = signing;
    this.#minted.clear();
    this.#services.clear();
    this.#executions.clear();
    this.#stamps = stamps;
  }
}

async function stamp(path: string | undefined): Promise<string> {
  if (path === undefined) return "";
  const found = await stat(path).catch(() => null);
  return found === null ? "missing" : `${found.mtimeMs}/${found.size}/${found.ino}`;
}

function headersOf(token: string, { execution, principal }: CallCredentials): Record<string, string> {
  const headers: Record<string, string> = { [credentialHeaders.service]: `Bearer ${token}` };
  if (execution !== undefined) headers[credentialHeaders.execution] = execution;
  // A header value is ASCII: the principal travels percent-encoded.
  if (principal !== undefined) headers[credentialHeaders.principal] = encodeURIComponent(principal);
  return headers;
}

function callerOf(service: string, execution: ExecutionClaims | undefined, encodedPrincipal: string | undefined): Caller {
  const named = encodedPrincipal === undefined ? undefined : decodePrincipal(encodedPrincipal);
  if (execution !== undefined && named !== undefined && named !== execution.principal) {
    throw unauthenticated("the call names another principal than its execution token");
  }
  const principal = execution?.principal ?? named;
  return { service, ...(principal === undefined ? {} : { principal }), ...(execution === undefined ? {} : { execution }) };
}

function decodePrincipal(encoded: string): string {
  let principal = "";
  try {
    principal = decodeURIComponent(encoded);
  } catch {
    // Left empty: refused below.
  }
  if (principal === "" || principal.length > maxPrincipalLength)
    throw unauthenticated(`the principal is empty, malformed or longer than ${maxPrincipalLength} characters`);
  return principal;
}

function executionClaims(payload: JWTPayload): ExecutionClaims {
  const { owner, context, code, subscription, run, partition, epoch, cause, principal, scope, exp } =
    payload as Partial<ExecutionClaims>;
  const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
  const isOptionalText = (value: unknown): boolean => value === undefined || isText(value);
  const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
  const isComplete =
    isText(owner) &&
    isText(context) &&
    isText(code) &&
    [subscription, run, principal].every(isOptionalText) &&
    isCount(partition) &&
    partition < 256 &&
    isCount(epoch) &&
    isCount(cause?.depth) &&
    isText(cause?.chain) &&
    Array.isArray(scope) &&
    scope.every(isText) &&
    isCount(exp);
  if (!isComplete) throw unauthenticated("the execution token lacks a claim or has one of the wrong type");
  return {
    owner,
    context,
    code,
    ...(subscription === undefined ? {} : { subscription }),
    ...(run === undefined ? {} : { run }),
    partition,
    epoch,
    cause: { chain: cause.chain, depth: cause.depth },
    ...(principal === undefined ? {} : { principal }),
    scope,
    exp,
  };
}

function unauthenticated(message: string) {
  return codedError("UNAUTHENTICATED", message);
}
