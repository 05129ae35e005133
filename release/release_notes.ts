/** What a part of the binary takes, in bytes. */
export interface BinaryPart {
  readonly name: string;
  readonly bytes: number;
}

/** What the notes of a release say. */
export interface ReleaseFacts {
  readonly version: string;
  readonly commit: string;
  /** First lines of the commits since the last release, the newest first. */
  readonly changes: readonly string[];
  /** Name of the last release's tag; undefined for the first one. */
  readonly since: string | undefined;
  readonly binaries: readonly {
    readonly name: string;
    readonly bytes: number;
    readonly parts: readonly BinaryPart[];
    /** CPU time in ms of `canopy version`; undefined where it does not run here. */
    readonly startCpuMs: number | undefined;
  }[];
}

/** Most changes that are listed. */
const MAX_CHANGES = 200;

/** The notes of a release, in Markdown. */
export function releaseNotes({ version, commit, changes, since, binaries }: ReleaseFacts): string {
  const lines = [`# Canopy ${version}`, "", `Of commit ${commit}.`, "", "## Binaries", ""];
  for (const { name, bytes, parts, startCpuMs } of binaries) {
    const held = parts.map((part) => `${part.name} ${megabytes(part.bytes)}`).join(", ");
    const start = startCpuMs === undefined
      ? "not started here (another platform)"
      : `\`canopy version\` takes ${startCpuMs.toFixed(0)} ms of CPU time`;
    lines.push(`- \`${name}\`, ${megabytes(bytes)}: ${held}; ${start}`);
  }
  lines.push("", since === undefined ? "## Changes: the first release" : `## Changes since ${since}`, "");
  for (const change of changes.slice(0, MAX_CHANGES)) lines.push(`- ${change}`);
  if (changes.length > MAX_CHANGES) lines.push(`- and ${changes.length - MAX_CHANGES} earlier ones`);
  return `${lines.join("\n")}\n`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
