// A streamed answer by OpenAI's client, then who said what. npm install openai
import process from "node:process";
import OpenAI from "openai";

const { CANOPY_URL = "http://127.0.0.1:8000", CANOPY_API_KEY = "none", CANOPY_MODEL = "moa" } = process.env;
const client = new OpenAI({ baseURL: `${CANOPY_URL}/v1`, apiKey: CANOPY_API_KEY });

const stream = await client.chat.completions.create({
  model: CANOPY_MODEL,
  messages: [{ role: "user", content: "What is 17 * 23? Show the steps." }],
  max_tokens: 256,
  stream: true,
  stream_options: { include_usage: true },
  canopy: { include: ["panel"] },
});
for await (const chunk of stream) {
  for (const { delta } of chunk.choices) process.stdout.write(delta.content ?? "");
  if (chunk.usage) {
    const { prompt_tokens: read, completion_tokens: written } = chunk.usage;
    process.stdout.write(`\n\n${read} tokens read, ${written} written by all agents\n`);
  }
  for (const { agent, model, text } of chunk.canopy?.panel ?? []) {
    process.stdout.write(`${agent} (${model}): ${JSON.stringify(text.slice(0, 60))}\n`);
  }
}
