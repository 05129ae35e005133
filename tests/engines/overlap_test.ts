/** Incremental prefill over real engines: the same answers, what is cached, and what the engines count. */
import { after, before, describe } from "node:test";
import { type CanopyProcess, configText, startCanopy } from "./canopy_process.ts";
import { type EngineProcess, startEngine } from "./engine_process.ts";
import { kindsUnderTest } from "./kinds_under_test.ts";
import { modelNames, overlapGraphs, overlapTests, prompts } from "./overlap_suite.ts";

for (const kind of kindsUnderTest) {
  describe(`Incremental prefill over ${kind.engine} ${kind.version}`, { concurrency: false }, () => {
    let engine: EngineProcess;
    let canopy: CanopyProcess;
    before(async () => {
      engine = await startEngine({ ...kind, modelNames });
      canopy = await startCanopy(configText([engine], overlapGraphs, prompts));
    });
    after(async () => {
      await canopy?.stop();
      await engine?.stop();
    });
    overlapTests(() => engine, () => canopy);
  });
}
