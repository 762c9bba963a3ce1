/** The owner of a query. Throws INVALID_INPUT. */
import { codedError } from "iterate/lib";
import { maxOwnerLength } from "../limits.js";

/** `allowed`: an empty owner asks for all of them. */
export function checkOwner(owner: string, empty: "allowed" | "refused"): string {
  if (owner === "" && empty === "refused")
    throw codedError("INVALID_INPUT", "owner is empty; name the project", { field: "owner" });
  if (owner.length > maxOwnerLength || owner.includes("\0")) {
    throw codedError("INVALID_INPUT", `owner is not an id of at most ${maxOwnerLength} characters`, { field: "owner" });
  }
  return owner;
}
