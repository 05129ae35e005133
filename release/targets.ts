import type { ReleasedBinary } from "../launcher/emit/container_file.ts";

/** A platform that a release has a binary for, in Node's words. */
export interface ReleaseTarget {
  readonly platform: "linux";
  readonly arch: "x64" | "arm64";
}

/** All platforms of a release: those that onnxruntime has a library for and that engines run on. */
export const TARGETS: readonly ReleaseTarget[] = [{ platform: "linux", arch: "x64" }, {
  platform: "linux",
  arch: "arm64",
}];

/** The target's name, such as `linux-x64`. */
export function targetName({ platform, arch }: ReleaseTarget): string {
  return `${platform}-${arch}`;
}

/** The target's binary in the folder of a release. */
export function binaryName(target: ReleaseTarget): string {
  return `canopy-${targetName(target)}`;
}

/** The same for the container file. */
export function containedBinary(target: ReleaseTarget): ReleasedBinary {
  return { file: binaryName(target), arch: target.arch === "x64" ? "amd64" : "arm64" };
}

/** The targets of a list such as `linux-x64,linux-arm64`. Throws on one that is not known. */
export function readTargets(list: string): readonly ReleaseTarget[] {
  return list.split(",").map((name) => {
    const target = TARGETS.find((one) => targetName(one) === name);
    if (target !== undefined) return target;
    throw new Error(`There is no target ${name}: name ${TARGETS.map(targetName).join(" or ")}`);
  });
}
