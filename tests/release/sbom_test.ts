import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { billOfMaterials, componentsOf } from "../../release/sbom.ts";

const LOCK = `{
  // As bun.lock is written: with commas at the end.
  "workspaces": { "": { "dependencies": { "a": "1.0.0", "@s/b": "2.0.0" }, "devDependencies": { "d": "1.0.0" } } },
  "packages": {
    "a": ["a@1.0.0", "", { "dependencies": { "c": "^1.0.0" } }, "sha512-AAEC"],
    "@s/b": ["@s/b@2.0.0", "", { "dependencies": { "c": "^2.0.0" } }, "sha512-/w=="],
    "c": ["c@1.5.0", "", {}, "sha512-AA=="],
    "@s/b/c": ["c@2.5.0", "", { "dependencies": { "a": "1.0.0" } }, "sha512-AQ=="],
    "d": ["d@1.0.0", "", {}, "sha512-AA=="],
  },
}`;

test("the bill of materials has what the program needs, own copies too, and nothing of development", () => {
  assert.deepEqual(componentsOf(LOCK), [
    { name: "@s/b", version: "2.0.0", sha512: "ff" },
    { name: "a", version: "1.0.0", sha512: "000102" },
    { name: "c", version: "1.5.0", sha512: "00" },
    { name: "c", version: "2.5.0", sha512: "01" },
  ]);
});

test("the project's own bill names every dependency of package.json with version, hash and purl", () => {
  const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), "utf8");
  const { dependencies, devDependencies } = JSON.parse(read("package.json"));
  const components = componentsOf(read("bun.lock"));
  for (const [name, version] of Object.entries(dependencies)) {
    const found = components.find((one) => one.name === name && one.version === version);
    assert.match(found?.sha512 ?? "", /^[0-9a-f]{128}$/, name);
  }
  const names = new Set(components.map(({ name }) => name));
  for (const name of Object.keys(devDependencies)) assert.equal(names.has(name), false, name);
  const bill = JSON.parse(JSON.stringify(billOfMaterials(components, {
    version: "1.2.3",
    license: "Apache-2.0",
    bun: "1.0.0",
    licenseOf: (name) => name === "hono" ? "MIT" : undefined,
  })));
  assert.deepEqual([bill.bomFormat, bill.specVersion, bill.components.length], [
    "CycloneDX",
    "1.6",
    components.length + 1,
  ]);
  const hono = bill.components.find(({ name }: { name: string }) => name === "hono");
  assert.deepEqual([hono.purl, hono.licenses], [`pkg:npm/hono@${dependencies.hono}`, [{
    expression: "MIT",
  }]]);
  const scoped = bill.components.find(({ name }: { name: string }) => name === "@grpc/grpc-js");
  assert.equal(scoped.purl, `pkg:npm/%40grpc/grpc-js@${dependencies["@grpc/grpc-js"]}`);
});
