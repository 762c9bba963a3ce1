import { describe, expect, it } from "vitest";
import { hostOf, parseTarget } from "./target.js";

const spec = { source: ["itx", "config"], module: "triage.ts", className: "Triage" };

describe("targets", () => {
  it.each([
    [["itx", "builtins", "processors", ["get", "publication"]], { kind: "native", name: "publication" }, "native:publication"],
    [
      ["itx", "facets", ["get", "triage", spec]],
      { kind: "facet", facet: "triage", module: "triage.ts", className: "Triage" },
      "facet:triage",
    ],
  ])("%j is known", (target, parsed, host) => {
    expect(parseTarget(JSON.stringify(target))).toEqual(parsed);
    expect(hostOf(parseTarget(JSON.stringify(target)))).toBe(host);
  });

  it.each([
    "",
    "null",
    "{}",
    `["itx"]`,
    `["itx","builtins","processors","publication"]`,
    `["itx","builtins","processors",["get"]]`,
    `["itx","builtins","processors",["get","a","b"]]`,
    `["itx","builtins","processors",["get","a"],"more"]`,
    `["itx","facets",["get","triage"]]`,
    `["itx","facets",["get","triage",null]]`,
    `["itx","facets",["get","triage",{"source":["itx","other"],"module":"a","className":"A"}]]`,
    `["itx","facets",["get","triage",{"source":["itx","config"],"module":1,"className":"A"}]]`,
    `["other","facets",["get","triage",{"source":["itx","config"],"module":"a","className":"A"}]]`,
  ])("%s is unknown", (json) => {
    expect(parseTarget(json)).toEqual({ kind: "unknown" });
    expect(hostOf(parseTarget(json))).toBe("none");
  });
});
