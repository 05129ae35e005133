import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../base/clock.ts";
import { AsyncQueue } from "../base/queue.ts";
import { fnv1a, Random } from "../base/random.ts";

// The proof that simulation rests on: a program of sleeps, web streams, async iterators and queues, run under the
// virtual clock, does the same things in the same order on Deno and on Bun. The constants are the proof: both
// runtimes have to arrive at them.
const HASH_OF_10_000_EVENTS = "0c0785d5";
const HASH_OF_TEE_BRANCHES = "dc74dcfe";

const EVENTS = 10_000;
const LANES = 40;

/** What a lane works with; the sides of a stream draw from streams of their own. */
interface Lane {
  readonly clock: VirtualClock;
  readonly random: Random;
  readonly signal: AbortSignal;
  record(what: string): void;
}

type Activity = (lane: Lane, name: string) => Promise<void>;

/** A stream whose `pull` takes 0 to 3 ms for each of 1 to 6 chunks. */
function source(lane: Lane, name: string): ReadableStream<Uint8Array<ArrayBuffer>> {
  const random = lane.random.stream(name);
  const chunks = 1 + random.int(6);
  let sent = 0;
  return new ReadableStream({
    async pull(controller) {
      await lane.clock.sleep(random.int(4), lane.signal);
      lane.record(`${name} pulled`);
      if (sent === chunks) controller.close();
      else controller.enqueue(new Uint8Array([97 + sent++]));
    },
    cancel() {
      lane.record(`${name} cancelled`);
    },
  });
}

/** Reads to the end, and dawdles after every other chunk. */
async function read(lane: Lane, name: string, stream: ReadableStream<Uint8Array>): Promise<void> {
  const random = lane.random.stream(`${name} reader`);
  const reader = stream.getReader();
  while (true) {
    const { done, value } = await reader.read();
    lane.record(`${name} read ${done ? "end" : value[0]}`);
    if (done) return;
    if (random.next() < 0.5) await lane.clock.sleep(random.int(3), lane.signal);
  }
}

const activities: Record<string, Activity> = {
  async sleep(lane, name) {
    await lane.clock.sleep(lane.random.int(5), lane.signal);
    lane.record(`${name} slept`);
  },

  async abortedSleep(lane, name) {
    const controller = new AbortController();
    const sleeping = lane.clock.sleep(lane.random.int(6), controller.signal)
      .then(() => lane.record(`${name} slept`), () => lane.record(`${name} woken`));
    await lane.clock.sleep(lane.random.int(6), lane.signal);
    controller.abort();
    lane.record(`${name} aborts`);
    await sleeping;
  },

  pull: (lane, name) => read(lane, name, source(lane, name)),

  async transform(lane, name) {
    const random = lane.random.stream(`${name} transform`);
    const stage = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      async transform(chunk, controller) {
        await lane.clock.sleep(random.int(3), lane.signal);
        lane.record(`${name} transformed`);
        controller.enqueue(chunk);
        if (random.next() < 0.3) controller.enqueue(chunk);
      },
      flush: () => lane.record(`${name} flushed`),
    });
    await read(lane, name, source(lane, name).pipeThrough(stage));
  },

  async teeInStep(lane, name) {
    const [left, right] = source(lane, name).tee();
    const [a, b] = [left.getReader(), right.getReader()];
    while (true) {
      const ofA = await a.read();
      lane.record(`${name} left ${ofA.value?.[0] ?? "end"}`);
      const ofB = await b.read();
      lane.record(`${name} right ${ofB.value?.[0] ?? "end"}`);
      if (ofA.done && ofB.done) return;
    }
  },

  responseBody(lane, name) {
    const body = new Response(source(lane, name)).body;
    assert.ok(body);
    return read(lane, name, body);
  },

  async responseText(lane, name) {
    const text = await new Response(source(lane, name)).text();
    lane.record(`${name} has ${text}`);
  },

  async decodeIterated(lane, name) {
    const body = new Response(source(lane, name)).body;
    assert.ok(body);
    for await (const text of body.pipeThrough(new TextDecoderStream())) {
      lane.record(`${name} decoded ${text}`);
    }
    lane.record(`${name} ended`);
  },

  async generator(lane, name) {
    const random = lane.random.stream(name);
    async function* produce() {
      try {
        for (let i = 0; i < 5; i++) {
          await lane.clock.sleep(random.int(3), lane.signal);
          yield i;
        }
      } finally {
        lane.record(`${name} closed`);
      }
    }
    for await (const i of produce()) {
      lane.record(`${name} got ${i}`);
      if (random.next() < 0.1) break;
    }
  },

  async queue(lane, name) {
    const queue = new AsyncQueue<number>(1 + lane.random.int(3));
    const count = 1 + lane.random.int(8);
    const produce = async () => {
      const random = lane.random.stream(`${name} producer`);
      for (let i = 0; i < count; i++) {
        await lane.clock.sleep(random.int(3), lane.signal);
        await queue.push(i, lane.signal);
        lane.record(`${name} pushed ${i}`);
      }
      queue.close();
    };
    const consume = async () => {
      const random = lane.random.stream(`${name} consumer`);
      for await (const i of queue) {
        lane.record(`${name} popped ${i}`);
        if (random.next() < 0.5) await lane.clock.sleep(random.int(4), lane.signal);
      }
    };
    await Promise.all([produce(), consume()]);
  },
};

/** Runs lanes of random activities until enough has happened; gives every event with its time, in order. */
async function simulate(
  seed: string,
  names: readonly string[],
  all: Record<string, Activity>,
): Promise<string[]> {
  const clock = new VirtualClock();
  const root = new Random(seed);
  const events: string[] = [];
  const end = new AbortController();
  const record = (what: string) => {
    if (events.length < EVENTS) events.push(`${clock.now()} ${what}`);
    if (events.length === EVENTS) end.abort();
  };
  const work = async (id: number) => {
    const lane: Lane = { clock, random: root.stream(`lane ${id}`), signal: end.signal, record };
    for (let turn = 0; !end.signal.aborted; turn++) {
      const activity = lane.random.pick(names);
      await all[activity]!(lane, `${id}.${turn} ${activity}`);
    }
  };
  const lanes = Array.from({ length: LANES }, (_, id) =>
    work(id).catch((error) => {
      if (!end.signal.aborted) throw error;
    }));
  await clock.run(() => Promise.all(lanes), { limitMs: 1_000_000 });
  return events;
}

function hash(events: readonly string[]): string {
  return fnv1a(events.join("\n")).toString(16).padStart(8, "0");
}

test("10,000 events under the virtual clock happen in the same order on Deno and on Bun", async () => {
  const events = await simulate("determinism", Object.keys(activities), activities);
  assert.equal(events.length, EVENTS);
  assert.equal(hash(events), HASH_OF_10_000_EVENTS);
});

test("the same seed gives the same events again, another seed gives others", async () => {
  const names = Object.keys(activities);
  const first = await simulate("again", names, activities);
  const second = await simulate("again", names, activities);
  assert.equal(hash(first), hash(second));
  assert.notEqual(hash(await simulate("other", names, activities)), hash(first));
});

test("each branch of a tee has the same events on Deno and on Bun, whoever of the two comes first", async () => {
  // Inside one turn the runtimes wake the two branches in different orders, so that each is looked at by itself.
  const branches = new Map<string, string[]>();
  const tee: Activity = async (lane, name) => {
    const [left, right] = source(lane, name).tee();
    await Promise.all([read(lane, `${name} left`, left), read(lane, `${name} right`, right)]);
  };
  for (const event of await simulate("tee", ["tee"], { tee })) {
    const [, lane, , branch] = event.split(" ");
    const key = `${lane} ${branch}`;
    const list = branches.get(key) ?? [];
    branches.set(key, list);
    list.push(event);
  }
  // The last instant is cut off somewhere inside by the limit on events.
  const lastMs = Math.max(...[...branches.values()].map((list) => parseInt(list.at(-1)!)));
  const whole = [...branches.keys()].sort()
    .map((key) => branches.get(key)!.filter((event) => parseInt(event) < lastMs).join("\n"));
  assert.equal(hash(whole), HASH_OF_TEE_BRANCHES);
});

test("bodies, pipes and ports come to rest in one turn: the virtual clock never takes them for a deadlock", async () => {
  const bytes = (chunks: number) => {
    let sent = 0;
    return new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull(controller) {
        if (sent++ === chunks) controller.close();
        else controller.enqueue(new Uint8Array(1000));
      },
    });
  };
  const drain = async (stream: ReadableStream<unknown> | null) => {
    assert.ok(stream);
    for await (const _ of stream);
  };
  const cases: Record<string, () => Promise<unknown>> = {
    "text of a string": () => new Response("x").text(),
    "json of a string": () => new Response("{}").json(),
    "body of a string": () => drain(new Response("x").body),
    "text of a stream": () => new Response(bytes(100)).text(),
    "text of both clones": () => {
      const response = new Response(bytes(50));
      return Promise.all([response.clone().text(), response.text()]);
    },
    "text of both tees": () => Promise.all(bytes(50).tee().map((branch) => new Response(branch).text())),
    "ten pipes": () => {
      let stream: ReadableStream<unknown> = bytes(50);
      for (let i = 0; i < 10; i++) stream = stream.pipeThrough(new TransformStream());
      return drain(stream);
    },
    "text of a request": () => new Request("http://host/", { method: "POST", body: "x" }).text(),
    "text of a blob": () => new Blob(["x".repeat(100_000)]).text(),
    "stream of a blob": () => drain(new Blob(["x".repeat(100_000)]).stream()),
    "a message port": () =>
      new Promise<void>((resolve) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => {
          port1.close();
          resolve();
        };
        port2.postMessage(1);
      }),
  };
  for (const [name, run] of Object.entries(cases)) {
    await assert.doesNotReject(new VirtualClock().run(run), name);
  }
});
