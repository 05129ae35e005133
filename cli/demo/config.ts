import { type Config, configSchema } from "../../cfgs/schema/config.ts";

/** One model of the demonstration and where it is served. */
export interface DemoModel {
  /** Its short name in the graphs. */
  readonly name: string;
  /** The name that its server knows. */
  readonly model: string;
  readonly engine: "openai" | "vllm" | "sglang";
  readonly url: string;
}

/** Options of `demoConfig`. */
export interface DemoOptions {
  /** From the smallest to the largest; agents take them in turn, the root takes the last. */
  readonly models: readonly DemoModel[];
  readonly apiKey?: string | undefined;
  /** Every agent gets a seed of its own, so that both graphs begin with the same nine answers. */
  readonly seeded: boolean;
  readonly maxTokens: number;
  readonly port: number;
  readonly host: string;
}

/** Nine proposers, then three or nine aggregators, then the root. */
export function demoConfig(options: DemoOptions): Config {
  const { models, seeded, apiKey } = options;
  const agent = (layer: number) => (index: number) => ({
    model: models[index % models.length]?.name ?? "",
    sampling: seeded ? { seed: 100 * layer + index } : undefined,
  });
  const nine = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const root = { agents: [agent(3)(models.length - 1)], prompt: "synthesize" };
  const sampling = { temperature: 0.7, max_tokens: options.maxTokens };
  return configSchema.parse({
    server: { host: options.host, port: options.port, log_level: "error" },
    models: Object.fromEntries(models.map(({ name, model, engine, url }) => [name, {
      model,
      engine,
      workers: [url],
      tokenizer: false,
      api_key: apiKey,
    }])),
    graphs: {
      "moa": {
        sampling,
        layers: [
          {
            clusters: [nine.slice(0, 3), nine.slice(3, 6), nine.slice(6)].map((three) => ({
              agents: three.map(agent(1)),
            })),
            prompt: "propose",
          },
          { agents: nine.slice(0, 3).map(agent(2)), prompt: "aggregate" },
          root,
        ],
      },
      "moa-dense": {
        sampling,
        layers: [
          { agents: nine.map(agent(1)), prompt: "propose" },
          { agents: nine.map(agent(2)), prompt: "aggregate" },
          root,
        ],
      },
    },
  });
}
