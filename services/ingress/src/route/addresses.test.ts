import { expect, test } from "vitest";
import { addressesOf, gitAddressOf, projectAddressOf } from "./addresses.js";

test.for([
  ["/projects/demo/", { slug: "demo", basePath: "/projects/demo", path: "/" }],
  ["/projects/demo/a/b?c=d", { slug: "demo", basePath: "/projects/demo", path: "/a/b?c=d" }],
  ["/projects/demo//x", { slug: "demo", basePath: "/projects/demo", path: "//x" }],
  ["/projects/demo", { redirect: "/projects/demo/" }],
  ["/projects/demo?x=1", { redirect: "/projects/demo/?x=1" }],
  ["/projects/", null],
  ["/projects/De%6do/", null],
  ["/", null],
  ["http://other/projects/demo/", null],
] as const)("the request %s is for %j", ([url, address]) => {
  expect(projectAddressOf(url)).toEqual(address);
});

test.for([
  [
    "/git/demo/config.git/info/refs?service=git-upload-pack",
    { project: "demo", repoPath: "/repos/config", rest: "info/refs?service=git-upload-pack" },
  ],
  ["/git/demo/config.git/git-receive-pack", { project: "demo", repoPath: "/repos/config", rest: "git-receive-pack" }],
  ["/git/demo/config.git/HEAD", null],
  ["/git/demo/config.git/objects/../../x", null],
  ["/git/demo/../x.git/git-upload-pack", null],
  ["/git/demo/config/info/refs", null],
] as const)("the git request %s is for %j", ([url, address]) => {
  expect(gitAddressOf(url)).toEqual(address);
});

test("an address that is told leads back to its project", () => {
  const addresses = addressesOf("http://localhost:7400", "127.0.0.1:7402");
  expect(projectAddressOf(new URL(addresses.project("demo")).pathname)).toMatchObject({ slug: "demo" });
  expect(gitAddressOf(`${new URL(addresses.git("demo")).pathname}/info/refs`)).toMatchObject({
    project: "demo",
    repoPath: "/repos/config",
  });
});
