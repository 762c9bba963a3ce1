/** Whatever the project's code threw, as plain data: it may be null, a proxy, or an error whose getters throw. */

export interface Failure {
  readonly code?: string;
  readonly message: string;
  readonly stack?: string;
  readonly data?: unknown;
}

const messageChars = 4_000;
const stackChars = 8_000;
const dataChars = 16_000;

export function failureOf(thrown: unknown): Failure {
  try {
    return thrown instanceof Error
      ? ofError(thrown)
      : { message: `The code threw something that is no Error: ${describe(thrown)}` };
  } catch {
    return { message: "The code threw something that cannot be read." };
  }
}

function ofError(error: Error & { code?: unknown; data?: unknown }): Failure {
  const { code, data } = error;
  return {
    message: `${error.name === "Error" || error.name === "CodedError" ? "" : `${error.name}: `}${error.message}`.slice(
      0,
      messageChars,
    ),
    ...(typeof code === "string" ? { code: code.slice(0, 100) } : {}),
    ...(typeof error.stack === "string" ? { stack: error.stack.slice(0, stackChars) } : {}),
    ...(isSmallJson(data) ? { data } : {}),
  };
}

function isSmallJson(data: unknown): boolean {
  try {
    return (JSON.stringify(data)?.length ?? Number.POSITIVE_INFINITY) <= dataChars;
  } catch {
    return false;
  }
}

function describe(value: unknown): string {
  const text = typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
  return String(text).slice(0, 500);
}
