import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { createHttpServer, type HttpServer } from "@iterate-platform/service/http-server";
import { createLog } from "@iterate-platform/service/log";
import { codedError } from "iterate/lib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { AdminToken } from "../identity/admin-token.js";
import { serveGit, type GitParts } from "./git.js";

const token = "t".repeat(32);
const project = { id: "prj_a", slug: "demo", createdAt: new Date(0) };
const parts: GitParts = {
  projects: {
    get: async (name) => {
      if (name === "demo") return project;
      throw name === "broken"
        ? codedError("INTERNAL", "a detail of the platform")
        : codedError("NOT_FOUND", `there is no project "${name}"`);
    },
  },
  adminToken: new AdminToken(token),
  forwarder: { forward: () => Promise.reject(codedError("UNAVAILABLE", "the service behind this address is away")) },
  trust: { headers: async () => ({}) },
  bundlerHttpUrl: "http://127.0.0.1:1",
};

let server: HttpServer;
let port: number;
beforeAll(async () => {
  const log = createLog("ingress", { write: () => undefined });
  server = createHttpServer({
    name: "ingress",
    listen: { variable: "PUBLIC_HTTP_LISTEN", host: "127.0.0.1", port: 0 },
    log,
    handler: (request, response) => serveGit(parts, request, response),
  });
  port = await server.start();
});
afterAll(() => server.drain(0));

/** What a developer's git prints when it cannot list the refs. */
async function gitSays(path: string, password: string): Promise<string> {
  const url = `http://token:${password}@127.0.0.1:${port}/git/${path}`;
  const env = { PATH: process.env["PATH"], HOME: "/nonexistent", GIT_CONFIG_NOSYSTEM: "1", GIT_TERMINAL_PROMPT: "0" };
  const ended = await promisify(execFile)("git", ["ls-remote", url], { env, timeout: 20_000 }).catch((error: unknown) => error);
  return (ended as { stderr: string }).stderr;
}

it.each([
  ["a wrong token", "demo/config.git", "wrong", "UNAUTHENTICATED: the password is not the admin token of this deployment"],
  ["a project that is not there", "nobody/config.git", token, 'NOT_FOUND: there is no project "nobody"'],
  ["an address of no repository", "demo", token, "NOT_FOUND: no repository is at this address; a project's is at /git/<project>"],
  ["a service that is away", "demo/config.git", token, "UNAVAILABLE: the service behind this address is away"],
])("says in git what is wrong with %s", async (_name, path, password, text) => {
  expect(await gitSays(path, password)).toContain(`remote: ${text}`);
});

it("says nothing of the platform's own faults", async () => {
  expect(await gitSays("broken/config.git", token)).not.toContain("a detail of the platform");
});

it("asks for the token when none is shown", async () => {
  const answer = await fetch(`http://127.0.0.1:${port}/git/demo/config.git/info/refs?service=git-upload-pack`);
  expect([answer.status, answer.headers.get("www-authenticate")]).toEqual([401, 'Basic realm="iterate", charset="UTF-8"']);
  expect(await answer.text()).toBe("UNAUTHENTICATED: git needs the admin token as the password, with any user name\n");
});
