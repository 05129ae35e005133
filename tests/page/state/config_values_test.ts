import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenValues, configSections, configValues } from "../../../page/state/config_values.ts";

test("values of a configuration stand in their sections, with what was set apart from defaults", () => {
  const data = [
    { path: "server.port", value: 9000, origin: "--port" },
    { path: "server.api_keys", value: [], origin: "default" },
    { path: 'models["org/a"].model', value: "org/a", origin: "canopy.jsonc:3" },
  ];
  const values = configValues({ object: "list", data });
  assert.deepEqual(values.map(({ value }) => value), ["9000", "[]", '"org/a"']);
  assert.deepEqual(configSections(values).map(([section, of]) => [section, of.length]), [
    ["server", 2],
    ["models", 1],
  ]);
  assert.deepEqual(chosenValues(values).map(({ path }) => path), ["server.port", 'models["org/a"].model']);
  assert.deepEqual(configValues({ data: [null] }), [{ path: "", value: "", origin: "" }]);
});
