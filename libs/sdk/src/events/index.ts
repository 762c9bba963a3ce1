/** The closed catalog of event types under `events.iterate.com/`, collected from the contract file of each namespace. */
import * as github from "./github.js";
import * as itx from "./itx.js";
import * as project from "./project.js";
import * as repo from "./repo.js";
import * as secret from "./secret.js";
import { collectCatalog } from "./vocabulary.js";

export { eventFamilies, eventType, platformPrefix } from "./event-type.js";
export type { EarlierFormat, EphemeralKind, EventFamily, EventTypeDeclaration } from "./event-type.js";
export { newestFormat } from "./format.js";
export { nearestName } from "./nearest.js";
export { isPlatformType, testTypePrefix, typeNameProblem } from "./naming.js";
export { renamedTypes } from "./renamed.js";
export type { Rename, Renames } from "./renamed.js";
export { matchesUrlPattern, parseUrlPattern, urlComponents } from "./url-pattern.js";
export type { UrlComponent, UrlPattern } from "./url-pattern.js";
export { collectCatalog, vocabularyProblems } from "./vocabulary.js";
export type { VocabularyProblem } from "./vocabulary.js";
export { github, itx, project, repo, secret };

/** Every declared type by its full name. No other type under the prefix can be appended, but those of tests. */
export const eventCatalog = collectCatalog({ itx, project, repo, github, secret });
