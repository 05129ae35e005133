import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../properties.ts";
import { hostnameOf, isListedHost, isLoopback } from "../../base/hosts.ts";

test("an authority's name is read as URLs read it, without port, case and last dot", () => {
  const names: readonly (readonly [string, string | undefined])[] = [
    ["localhost:8000", "localhost"],
    ["LocalHost.", "localhost"],
    ["127.1:80", "127.0.0.1"],
    ["[::1]:8000", "[::1]"],
    ["evil.example", "evil.example"],
    ["127.0.0.1@evil.example", undefined],
    ["127.0.0.1/evil", undefined],
    ["a b", undefined],
    ["", undefined],
    ["[::1", undefined],
  ];
  for (const [authority, name] of names) assert.equal(hostnameOf(authority), name, authority);
});

test("loopback is localhost, names under it, 127.0.0.0/8 and ::1, and nothing that only looks like them", () => {
  for (const host of ["localhost", "LOCALHOST", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"]) {
    assert.ok(isLoopback(host), host);
  }
  for (
    const host of [
      "0.0.0.0",
      "localhost.evil.example",
      "127.0.0.1.evil.example",
      "notlocalhost",
      "::2",
      "",
      "127.evil",
    ]
  ) assert.equal(isLoopback(host), false, host);
});

test("a list names hosts, domains with all that is in them, or everything", () => {
  assert.ok(isListedHost("gpu1", ["gpu1"]));
  assert.ok(isListedHost("gpu1", ["GPU1"]));
  assert.ok(isListedHost("[fd00::1]", ["fd00::1"]));
  assert.ok(isListedHost("[fd00::1]", ["[fd00:0::1]"]));
  assert.ok(isListedHost("a.gpus.example", ["*.gpus.example"]));
  assert.ok(isListedHost("anything", ["*"]));
  assert.equal(isListedHost("gpus.example", ["*.gpus.example"]), false);
  assert.equal(isListedHost("evilgpus.example", ["*.gpus.example"]), false);
  assert.equal(isListedHost("gpu11", ["gpu1"]), false);
  assert.equal(isListedHost("gpu1", []), false);
});

test("an authority of nothing but dots names no host", () => {
  for (const authority of [".", "..", ".:80"]) assert.equal(hostnameOf(authority), undefined, authority);
});

test("whatever an authority is, its name has neither port nor user, and a URL to it goes there", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.webAuthority({ withPort: true }), fc.domain()), (authority) => {
      const name = hostnameOf(authority);
      if (name === undefined) return;
      assert.equal(new URL(`http://${name}:1/`).hostname.replace(/\.$/, ""), name);
      assert.equal(name, name.toLowerCase());
    }),
  );
});
