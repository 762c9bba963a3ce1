import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT, generateKeyPair, importJWK, type JWK } from "jose";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { authorize, type Caller, type ExecutionClaims } from "./caller.js";
import { generateKeys, type KeyFiles } from "./keys.js";
import { TokenCache } from "./token-cache.js";
import { Trust } from "./trust.js";

let directory: string;
let files: KeyFiles;
let now = 1_800_000_000_000;
const nowMs = (): number => now;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "trust-"));
  files = await generateKeys({ directory, services: ["context", "runner", "ingress"] });
});
afterEach(() => rm(directory, { recursive: true }));

const trustOf = (service: string): Promise<Trust> =>
  Trust.load({ service, keyFile: files.keyFile(service), trustedKeysFile: files.trustedKeysFile, nowMs });

const claims = (): ExecutionClaims => ({
  owner: "prj_1",
  context: "/chat",
  code: "config@abc",
  subscription: "triage",
  partition: 7,
  epoch: 3,
  cause: { chain: "c1", depth: 2 },
  principal: "usr_1",
  scope: ["append"],
  exp: Math.floor(now / 1000) + 30,
});

const headersOf =
  (headers: Record<string, string>) =>
  (name: string): string | undefined =>
    headers[name];

async function refusal(promise: unknown): Promise<string> {
  try {
    await (typeof promise === "function" ? (promise as () => unknown)() : promise);
  } catch (error) {
    expect(error).toMatchObject({ code: "UNAUTHENTICATED" });
    return (error as Error).message;
  }
  throw new Error("it was accepted");
}

async function signAs(service: string, header: Record<string, unknown>, payload: Record<string, unknown>): Promise<string> {
  const jwk = JSON.parse(await readFile(files.keyFile(service), "utf8")) as JWK;
  return new SignJWT(payload)
    .setProtectedHeader({ alg: "EdDSA", kid: jwk.kid!, typ: "service+jwt", ...header })
    .sign(await importJWK(jwk, "EdDSA"));
}

describe("service tokens", () => {
  test("prove the calling service to the called one, and to no other", async () => {
    const [runner, context, ingress] = await Promise.all([trustOf("runner"), trustOf("context"), trustOf("ingress")]);
    const token = await runner.serviceToken("context");
    expect(await context.verifyService(token)).toBe("runner");
    expect(await refusal(ingress.verifyService(token))).toContain("claim aud");
  });

  test("are believed for their minute and not a moment after the tolerance", async () => {
    const [runner, context] = await Promise.all([trustOf("runner"), trustOf("context")]);
    const token = await runner.serviceToken("context");
    now += 59_000;
    expect(await context.verifyService(token)).toBe("runner");
    now += 5_000;
    expect(await context.verifyService(token)).toBe("runner");
    now += 2_000;
    expect(await refusal(context.verifyService(token))).toContain("ERR_JWT_EXPIRED");
  });

  test("are verified once and then known at once; new ones are minted in time", async () => {
    const [runner, context] = await Promise.all([trustOf("runner"), trustOf("context")]);
    const token = await runner.serviceToken("context");
    expect(context.verifyService(token)).toBeInstanceOf(Promise);
    await context.verifyService(token);
    expect(context.verifyService(token)).toBe("runner");
    now += 39_000;
    expect(runner.serviceToken("context")).toBe(token);
    now += 2_000;
    expect(await runner.serviceToken("context")).not.toBe(token);
  });

  test("are refused when forged in any part", async () => {
    const context = await trustOf("context");
    const iat = Math.floor(now / 1000);
    const payload = { iss: "runner", aud: "context", iat, exp: iat + 60 };
    const cases: [string, Promise<string>][] = [
      [
        "signed by an unknown key",
        (async () =>
          new SignJWT(payload)
            .setProtectedHeader({ alg: "EdDSA", kid: "nobody", typ: "service+jwt" })
            .sign((await generateKeyPair("EdDSA")).privateKey))(),
      ],
      [
        "ERR_JWS_SIGNATURE_VERIFICATION_FAILED",
        (async () => {
          const { kid } = JSON.parse(await readFile(files.keyFile("runner"), "utf8")) as { kid: string };
          return new SignJWT(payload)
            .setProtectedHeader({ alg: "EdDSA", kid, typ: "service+jwt" })
            .sign((await generateKeyPair("EdDSA")).privateKey);
        })(),
      ],
      ["claim iss", signAs("runner", {}, { ...payload, iss: "ingress" })],
      ["valid for more than 60 s", signAs("runner", {}, { ...payload, exp: iat + 61 })],
      ["claim exp", signAs("runner", {}, { iss: "runner", aud: "context", iat })],
      ["claim typ", signAs("runner", { typ: "execution+jwt" }, payload)],
      ["malformed", Promise.resolve("not.a.token")],
      ["malformed", Promise.resolve("")],
      ["longer than 8192", Promise.resolve("x".repeat(8_193))],
      [
        "ERR_",
        Promise.resolve(
          `${Buffer.from('{"alg":"none","kid":"x"}').toString("base64url")}.${Buffer.from(JSON.stringify(payload)).toString("base64url")}.`,
        ),
      ],
    ];
    for (const [reason, token] of cases) {
      const message = await refusal(context.verifyService(await token));
      if (reason !== "ERR_" && reason !== "malformed") expect(message).toContain(reason);
    }
  });

  test("cannot be made without a key, nor with a key of another service", async () => {
    const isolate = await Trust.load({ service: "runner-isolate", trustedKeysFile: files.trustedKeysFile, nowMs });
    expect(await refusal(isolate.serviceToken("context"))).toContain("ITERATE_SERVICE_KEY_FILE");
    expect(await isolate.verifyService(await (await trustOf("runner")).serviceToken("runner-isolate"))).toBe("runner");
    await expect(
      Trust.load({ service: "context", keyFile: files.keyFile("runner"), trustedKeysFile: files.trustedKeysFile }),
    ).rejects.toThrow('the key of service "runner"');
  });
});

describe("execution tokens", () => {
  test("carry the claims of the running code from the runner to everyone", async () => {
    const [runner, context] = await Promise.all([trustOf("runner"), trustOf("context")]);
    expect(await context.verifyExecution(await runner.mintExecution(claims()))).toEqual(claims());
  });

  test("end at their own expiry, cached or not", async () => {
    const [runner, context] = await Promise.all([trustOf("runner"), trustOf("context")]);
    const token = await runner.mintExecution(claims());
    await context.verifyExecution(token);
    now += 31_000;
    await refusal(async () => {
      now += 5_000;
      return context.verifyExecution(token);
    });
  });

  test("are refused from any signer but the runner, as a service token, and with a claim missing", async () => {
    const [runner, context, ingress] = await Promise.all([trustOf("runner"), trustOf("context"), trustOf("ingress")]);
    expect(await refusal(context.verifyExecution(await ingress.mintExecution(claims())))).toContain('signed by "ingress"');
    expect(await refusal(context.verifyExecution(await runner.serviceToken("context")))).toContain("not valid");
    expect(await refusal(context.verifyService(await runner.mintExecution(claims())))).toContain("not valid");
    for (const broken of [
      { partition: 256 },
      { partition: -1 },
      { epoch: "3" },
      { cause: { chain: "", depth: 0 } },
      { scope: "all" },
      { owner: undefined },
    ]) {
      const token = await runner.mintExecution({ ...claims(), ...broken } as ExecutionClaims);
      expect(await refusal(context.verifyExecution(token))).toContain("lacks a claim");
    }
  });
});

describe("a call's credentials", () => {
  test("travel in headers and come back as the caller", async () => {
    const [runner, context] = await Promise.all([trustOf("runner"), trustOf("context")]);
    const execution = await runner.mintExecution(claims());
    const headers = await runner.headers("context", { execution });
    expect(await context.authenticate(headersOf(headers))).toEqual({ service: "runner", principal: "usr_1", execution: claims() });
    const plain = await runner.headers("context", { principal: "zoë@example.com" });
    expect(await context.authenticate(headersOf(plain))).toEqual({ service: "runner", principal: "zoë@example.com" });
  });

  test("are refused when absent, when not a bearer, and when two principals are named", async () => {
    const [runner, context] = await Promise.all([trustOf("runner"), trustOf("context")]);
    const execution = await runner.mintExecution(claims());
    expect(await refusal(() => context.authenticate(() => undefined))).toContain("no service token");
    expect(await refusal(() => context.authenticate(headersOf({ authorization: "Basic x" })))).toContain("not a bearer");
    expect(
      await refusal(async () =>
        context.authenticate(headersOf({ ...(await runner.headers("context", { execution })), "x-iterate-principal": "usr_2" })),
      ),
    ).toContain("another principal");
    expect(
      await refusal(async () =>
        context.authenticate(headersOf({ ...(await runner.headers("context")), "x-iterate-principal": "%E0%A4%A" })),
      ),
    ).toContain("principal");
  });
});

describe("keys", () => {
  test("are readable by their owner alone and kept when generated again", async () => {
    const before = await readFile(files.keyFile("runner"), "utf8");
    await generateKeys({ directory, services: ["runner", "bundler"] });
    expect(await readFile(files.keyFile("runner"), "utf8")).toBe(before);
    for (const path of [files.keyFile("runner"), files.keyFile("bundler"), files.trustedKeysFile])
      expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readFile(files.trustedKeysFile, "utf8")).not.toContain('"d"');
  });

  test("rotate under traffic: tokens of the old and of the new key are taken, those of a removed key are not", async () => {
    const [runner, context] = await Promise.all([trustOf("runner"), trustOf("context")]);
    const old = await runner.serviceToken("context");
    await generateKeys({ directory, services: ["runner"], rotate: true });
    now += 41_000;
    const fresh = await runner.serviceToken("context");
    expect(JSON.parse(Buffer.from(fresh.split(".")[0]!, "base64url").toString())).not.toEqual(
      JSON.parse(Buffer.from(old.split(".")[0]!, "base64url").toString()),
    );
    expect(await context.verifyService(fresh)).toBe("runner");
    expect(await context.verifyService(old)).toBe("runner");

    const { kid } = JSON.parse(Buffer.from(old.split(".")[0]!, "base64url").toString()) as { kid: string };
    const set = JSON.parse(await readFile(files.trustedKeysFile, "utf8")) as { keys: JWK[] };
    await writeFile(files.trustedKeysFile, JSON.stringify({ keys: set.keys.filter((key) => key.kid !== kid) }));
    now += 16_000;
    const again = await signAs(
      "runner",
      {},
      { iss: "runner", aud: "context", iat: Math.floor(now / 1000), exp: Math.floor(now / 1000) + 60 },
    );
    expect(await context.verifyService(again)).toBe("runner");
    expect(await refusal(context.verifyService(old))).toContain("unknown key");
  });

  test("that cannot be read later leave the known ones in force", async () => {
    const [runner, context] = await Promise.all([trustOf("runner"), trustOf("context")]);
    await writeFile(files.trustedKeysFile, "{");
    now += 60_000;
    expect(await context.verifyService(await runner.serviceToken("context"))).toBe("runner");
  });

  test("name the file that is missing or malformed and never show it", async () => {
    await expect(Trust.load({ service: "context", trustedKeysFile: join(directory, "none.json") })).rejects.toThrow(
      /none\.json cannot be read \(ENOENT\)/,
    );
    await writeFile(files.trustedKeysFile, '{"keys":[{"kid":"a","d":"hunter2"}]}');
    await expect(Trust.load({ service: "context", trustedKeysFile: files.trustedKeysFile })).rejects.toThrow(
      expect.objectContaining({ code: "INVALID_INPUT", message: expect.not.stringContaining("hunter2") }),
    );
  });
});

describe("the token cache", () => {
  test("is bounded and shares one check among callers of the same token", async () => {
    const cache = new TokenCache<number>({ nowMs, maxEntries: 3 });
    let checks = 0;
    const verify = async (token: string) => ({ claims: (checks += 1) && Number(token), expiresAtMs: now + 1e9 });
    expect(await Promise.all(Array.from({ length: 64 }, async () => cache.claims("1", verify)))).toEqual(Array(64).fill(1));
    expect(checks).toBe(1);
    for (const token of ["2", "3", "4", "5"]) await cache.claims(token, verify);
    expect(cache.size).toBe(3);
    expect(cache.claims("5", verify)).toBe(5);
    now += 60_000;
    expect(cache.claims("5", verify)).toBeInstanceOf(Promise);
  });
});

describe("the method table", () => {
  const service: Caller = { service: "runner" };
  const executing: Caller = { service: "runner", execution: claims() };
  const person: Caller = { service: "runner", principal: "usr_1" };
  test.each([
    ["no row", undefined, service, false],
    ["another service", { services: ["ingress"], execution: "allowed" }, service, false],
    ["its service", { services: ["ingress", "runner"], execution: "allowed" }, service, true],
    ["any service", { services: ["*"], execution: "allowed" }, service, true],
    ["execution required", { services: ["runner"], execution: "required" }, service, false],
    ["execution required", { services: ["runner"], execution: "required" }, executing, true],
    ["execution refused", { services: ["runner"], execution: "refused" }, executing, false],
    ["execution refused", { services: ["runner"], execution: "refused" }, service, true],
    ["person required", { services: ["runner"], execution: "allowed", person: "required" }, service, false],
    ["person required", { services: ["runner"], execution: "allowed", person: "required" }, person, true],
    ["person refused", { services: ["runner"], execution: "allowed", person: "refused" }, person, false],
  ] as const)("with %s admits: %#", (_name, policy, caller, admitted) => {
    const act = () => authorize("/s/M", policy, caller);
    if (admitted) expect(act).not.toThrow();
    else expect(act).toThrowError(expect.objectContaining({ code: "FORBIDDEN" }));
  });
});
