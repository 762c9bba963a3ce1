/** The project's modules. A process is given its own version of this module, generated with static imports of the bundle's entries. */
export const entries: ReadonlyMap<string, Readonly<Record<string, unknown>>> = new Map();
export const mainModule: string | undefined = undefined as string | undefined;
