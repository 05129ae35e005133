/**
 * What the router costs, each figure beside the least that could do the same work, in one run:
 *
 *     deno task bench:overhead
 */
import process from "node:process";
import { type AgentOverhead, agentOverhead } from "./overhead_agent.ts";
import { relayOverhead } from "./overhead_relay.ts";
import { requestOverhead } from "./overhead_request.ts";
import { treeOverhead } from "./overhead_tree.ts";

const us = (value: number) => value.toFixed(2).padStart(8);
const times = (value: number, base: number) => `${(value / base).toFixed(2)}×`.padStart(8);
const line = (name: string, value: number, base: number) =>
  process.stdout.write(`${name.padEnd(46)}${us(value)}${times(value, base)}\n`);
const title = (text: string, unit: string) =>
  process.stdout.write(`\n${text.padEnd(46)}${unit.padStart(8)}\n`);

function agentLines({ engine, bare, panel, root }: AgentOverhead): void {
  title(`An agent's token, ${engine}, in memory`, "CPU µs");
  line("the engine's bytes, read and dropped", bare, bare);
  line("to an agent's log, for its successor", panel, bare);
  line("to the root's client, as a chat stream", root, bare);
}

process.stdout.write("CPU time and ratios; medians of rounds taken in turns\n");

const relay = await relayOverhead({ streams: 64, chunks: 1000, rounds: 5 });
title("A chunk of 210 bytes through the HTTP app", "CPU µs");
line("bare pass-through", relay.bare, relay.bare);
line("relay, vllm", relay.vllm, relay.bare);
line("relay, sglang", relay.sglang, relay.bare);
line("relay, model renamed", relay.renamed, relay.bare);

const request = await requestOverhead({ requests: 5_000, atOnce: 64, rounds: 5 });
title("A request with a whole answer of 1 kB, in memory", "CPU µs");
line("bare pass-through", request.bare, request.bare);
line("relay, a whole server", request.regular, request.bare);
line("relay, a pair: two requests to workers", request.pair, request.bare);

agentLines(await agentOverhead("vllm", { tokens: 500, answers: 20, rounds: 5 }));
agentLines(await agentOverhead("sglang", { tokens: 500, answers: 20, rounds: 5 }));

const tree = await treeOverhead({ tokens: 100, rounds: 15 });
title("A 9-3-1 tree of 100 tokens each, over loopback", "ms");
line("13 requests sent by a script: time", tree.directMs, tree.directMs);
line("through the router: time", tree.routerMs, tree.directMs);
line("13 requests sent by a script: CPU", tree.directCpuMs, tree.directCpuMs);
line("through the router: CPU", tree.routerCpuMs, tree.directCpuMs);
