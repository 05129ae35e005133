import { parse } from "jsonc-parser";

/** A package as bun.lock has it: `name@version`, where it is from, what it needs, its SHA-512 in base64. */
type Locked = readonly [id: string, from: string, facts: LockedFacts, integrity?: string];

interface LockedFacts {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** What of a lock file is read. */
interface Lock {
  readonly workspaces: Readonly<Record<string, LockedFacts>>;
  readonly packages: Readonly<Record<string, Locked>>;
}

/** One package that is in the program. */
export interface Component {
  readonly name: string;
  readonly version: string;
  /** SHA-512 of its archive, in hexadecimal digits. */
  readonly sha512: string | undefined;
}

/** The packages that the program needs, with all that these need, by name; those for development are left out. */
export function componentsOf(lockText: string): Component[] {
  const lock: Lock = parse(lockText);
  const found = new Map<string, Component>();
  /** A package's own copy of another one stands under its path: `yargs/string-width`. */
  const visit = (facts: LockedFacts, path: string) => {
    for (const name of Object.keys({ ...facts.dependencies, ...facts.optionalDependencies })) {
      const own = `${path}/${name}`;
      const at = path !== "" && Object.hasOwn(lock.packages, own) ? own : name;
      const locked = lock.packages[at];
      if (locked === undefined) continue;
      const [id, , needs, integrity] = locked;
      if (found.has(id)) continue;
      const cut = id.lastIndexOf("@");
      const sha512 = integrity?.startsWith("sha512-")
        ? Buffer.from(integrity.slice("sha512-".length), "base64").toString("hex")
        : undefined;
      found.set(id, { name: id.slice(0, cut), version: id.slice(cut + 1), sha512 });
      visit(needs, at);
    }
  };
  visit(lock.workspaces[""] ?? {}, "");
  return [...found.values()].sort((one, other) =>
    one.name < other.name ? -1 : one.name > other.name ? 1 : one.version < other.version ? -1 : 1
  );
}

/** Options of `billOfMaterials`. */
export interface BillOptions {
  readonly version: string;
  readonly license: string;
  /** Version of the runtime that is in the binary. */
  readonly bun: string;
  /** Licence of a package, as its own manifest says; undefined where it says none. */
  readonly licenseOf: (name: string) => string | undefined;
}

/** The release's bill of materials in CycloneDX 1.6. */
export function billOfMaterials(components: readonly Component[], options: BillOptions): object {
  const { version, license, bun, licenseOf } = options;
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      component: {
        type: "application",
        name: "canopy",
        version,
        licenses: [{ license: { id: license } }],
      },
    },
    components: [
      { type: "platform", name: "bun", version: bun, purl: `pkg:npm/bun@${bun}` },
      ...components.map((component) => {
        const own = licenseOf(component.name);
        return {
          type: "library",
          name: component.name,
          version: component.version,
          purl: `pkg:npm/${component.name.replace("@", "%40")}@${component.version}`,
          ...(component.sha512 === undefined
            ? {}
            : { hashes: [{ alg: "SHA-512", content: component.sha512 }] }),
          ...(own === undefined ? {} : { licenses: [{ expression: own }] }),
        };
      }),
    ],
  };
}
