/**
 * Typed configuration from environment variables. A service declares its variables once; loading reports every problem of the
 * environment together, each by variable, observed value and remedy, and the same declaration prints its own reference table.
 * An empty variable counts as unset, because charts and shells cannot tell the two apart.
 */
import { readFileSync } from "node:fs";
import { codedError } from "iterate/lib";

/** One environment variable: how its text becomes a value. */
export interface Variable<Value> {
  readonly name: string;
  readonly description: string;
  /** What a valid text looks like, as it ends "expected …". */
  readonly expected: string;
  /** Text used when the variable is unset; `undefined` makes it required unless `optional`. */
  readonly default: string | undefined;
  readonly optional: boolean;
  /** The value is never printed. */
  readonly secret: boolean;
  /** Throws `Unacceptable` when the text is not. */
  readonly parse: (text: string) => Value;
}

export interface VariableOptions {
  readonly description: string;
  readonly default?: string;
  readonly secret?: boolean;
}

export type ConfigSpec = Readonly<Record<string, Variable<unknown>>>;

export type ConfigValues<Spec extends ConfigSpec> = {
  readonly [Key in keyof Spec]: Spec[Key] extends Variable<infer Value> ? Value : never;
};

export interface ConfigDefinition<Spec extends ConfigSpec> {
  readonly spec: Spec;
  /** Reads every variable. Throws one INVALID_INPUT whose message lists each problem on its own line. */
  load(env?: Readonly<Record<string, string | undefined>>): ConfigValues<Spec>;
  /** The reference of the variables as a Markdown table. */
  docs(): string;
}

export function defineConfig<const Spec extends ConfigSpec>(spec: Spec): ConfigDefinition<Spec> {
  return {
    spec,
    load: (env = process.env) => {
      const values: Record<string, unknown> = {};
      const problems: string[] = [];
      for (const [key, variable] of Object.entries(spec)) {
        const outcome = read(variable, env);
        if ("problem" in outcome) problems.push(outcome.problem);
        else values[key] = outcome.value;
      }
      if (problems.length > 0) throw codedError("INVALID_INPUT", `configuration:\n  ${problems.join("\n  ")}`, { problems });
      return values as ConfigValues<Spec>;
    },
    docs: () => docsTable(Object.values(spec)),
  };
}

/** Adds the variables of `base` to `extra`; a key of both is taken from `extra`. */
export function extendConfig<Base extends ConfigSpec, Extra extends ConfigSpec>(
  base: ConfigDefinition<Base>,
  extra: ConfigDefinition<Extra>,
): ConfigDefinition<Omit<Base, keyof Extra> & Extra> {
  return defineConfig({ ...base.spec, ...extra.spec });
}

/** The same variable, allowed to be unset: its value is then `undefined`. */
export function optional<Value>(variable: Variable<Value>): Variable<Value | undefined> {
  return { ...variable, optional: true };
}

export function text(name: string, options: VariableOptions): Variable<string> {
  return variable(name, options, "any text", (value) => value);
}

/** An absolute URL with one of the given schemes, kept as text without a trailing slash. */
export function url(name: string, schemes: readonly string[], options: VariableOptions): Variable<string> {
  return variable(name, options, `a URL starting with ${schemes.map((scheme) => `${scheme}://`).join(" or ")}`, (value) => {
    if (!URL.canParse(value)) throw new Unacceptable("is not a URL");
    const scheme = new URL(value).protocol.slice(0, -1);
    if (!schemes.includes(scheme)) throw new Unacceptable(`has the scheme ${JSON.stringify(scheme)}`);
    return value.replace(/\/+$/, "");
  });
}

/** Where a listener binds. `variable` travels with it so that a busy port can be named by what set it. */
export interface ListenAddress {
  readonly variable: string;
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
}

/** `host:port`; IPv6 hosts in brackets. */
export function listen(name: string, options: VariableOptions): Variable<ListenAddress> {
  return variable(name, options, "host:port, e.g. 127.0.0.1:7410 or [::]:7410", (value) => {
    const match = /^(\[[0-9a-fA-F:.]+\]|[^\s:[\]]+):(\d{1,5})$/.exec(value);
    if (match === null) throw new Unacceptable("is not host:port");
    const port = Number(match[2]);
    if (port > 65_535) throw new Unacceptable(`has the port ${port}, above 65535`);
    return { variable: name, host: match[1]!.replace(/^\[|\]$/g, ""), port };
  });
}

export function integer(
  name: string,
  range: { readonly min: number; readonly max: number },
  options: VariableOptions,
): Variable<number> {
  return variable(name, options, `a whole number from ${range.min} to ${range.max}`, (value) => {
    if (!/^-?\d+$/.test(value)) throw new Unacceptable("is not a whole number");
    const number = Number(value);
    if (number < range.min || number > range.max) throw new Unacceptable("is out of range");
    return number;
  });
}

/** A number from 0 to 1. */
export function fraction(name: string, options: VariableOptions): Variable<number> {
  return variable(name, options, "a number from 0 to 1", (value) => {
    const number = /^\d*\.?\d+$/.test(value) ? Number(value) : NaN;
    if (!(number >= 0 && number <= 1)) throw new Unacceptable("is not a number from 0 to 1");
    return number;
  });
}

export function flag(name: string, options: VariableOptions): Variable<boolean> {
  return variable(name, options, "true or false", (value) => {
    if (value === "true" || value === "1") return true;
    if (value === "false" || value === "0") return false;
    throw new Unacceptable("is neither true nor false");
  });
}

export function oneOf<const Choice extends string>(
  name: string,
  choices: readonly Choice[],
  options: VariableOptions,
): Variable<Choice> {
  return variable(name, options, choices.join(" or "), (value) => {
    const choice = choices.find((candidate) => candidate === value);
    if (choice === undefined) throw new Unacceptable("is none of the choices");
    return choice;
  });
}

/** The path of a file that can be read now. */
export function file(name: string, options: VariableOptions): Variable<string> {
  return variable(name, options, "the path of a readable file", (value) => {
    try {
      readFileSync(value);
    } catch (error) {
      throw new Unacceptable(`cannot be read (${(error as NodeJS.ErrnoException).code})`);
    }
    return value;
  });
}

/** What a rule throws: a sentence that goes on after the variable's name ("is not …") and never quotes the value. */
export class Unacceptable extends Error {
  override readonly name = "Unacceptable";
}

/** A variable with a rule of its own; `parse` throws `Unacceptable`. */
export function variable<Value>(
  name: string,
  options: VariableOptions,
  expected: string,
  parse: (text: string) => Value,
): Variable<Value> {
  return {
    name,
    description: options.description,
    expected,
    default: options.default,
    optional: false,
    secret: options.secret ?? false,
    parse,
  };
}

function read(
  variable: Variable<unknown>,
  env: Readonly<Record<string, string | undefined>>,
): { value: unknown } | { problem: string } {
  const given = env[variable.name];
  const source = given === undefined || given === "" ? variable.default : given;
  if (source === undefined) {
    return variable.optional
      ? { value: undefined }
      : { problem: `${variable.name} is not set; set it to ${variable.expected} (${variable.description})` };
  }
  try {
    return { value: variable.parse(source) };
  } catch (thrown) {
    // Only sentences of `parse` are shown: an error of a library may quote the value.
    const reason = thrown instanceof Unacceptable ? thrown.message : "is not acceptable";
    const observed = variable.secret ? "(value hidden)" : `(${JSON.stringify(source)})`;
    return {
      problem: `${variable.name} ${observed} ${variable.secret ? "is not acceptable" : reason}; expected ${variable.expected}`,
    };
  }
}

function docsTable(variables: readonly Variable<unknown>[]): string {
  const cell = (value: string): string => value.replaceAll("|", "\\|").replaceAll("\n", " ");
  const rows = variables.map((variable) => {
    const fallback = variable.default === undefined ? (variable.optional ? "–" : "**required**") : `\`${variable.default}\``;
    const notes = variable.secret ? `${variable.description} Secret: never printed.` : variable.description;
    return `| \`${variable.name}\` | ${cell(variable.expected)} | ${cell(fallback)} | ${cell(notes)} |`;
  });
  return ["| variable | value | default | meaning |", "|---|---|---|---|", ...rows, ""].join("\n");
}
