import manifest from "../../package.json" with { type: "json" };

/** The program's version, as in package.json. */
export const version: string = manifest.version;
