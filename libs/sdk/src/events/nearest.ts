/** The name that somebody who mistyped one may have meant. */

/** Most single-character changes that are still taken for a slip. */
const maxDistance = 3;

/** The name of `names` that is nearest to `typed`; null when none is near. */
export function nearestName(typed: string, names: Iterable<string>): string | null {
  let nearest: string | null = null;
  let least = maxDistance + 1;
  for (const name of names) {
    if (Math.abs(name.length - typed.length) >= least) continue;
    const distance = distanceOf(typed, name);
    if (distance < least) [nearest, least] = [name, distance];
  }
  return nearest;
}

/** Levenshtein: characters inserted, removed or replaced. */
function distanceOf(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const replaced = row[j - 1]! + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[other.length]!;
}
