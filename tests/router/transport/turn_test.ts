import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { SystemClock, VirtualClock } from "../../../base/clock.ts";
import { type Break, Connection, type ConnectionUser } from "../../../router/transport/connection.ts";
import { targetOf } from "../../../router/transport/target.ts";
import { Turn } from "../../../router/transport/turn.ts";
import { startNetServer } from "./scripted_server.ts";

function setUp() {
  const clock = new VirtualClock();
  const turn = new Turn(clock);
  const journal: string[] = [];
  const socket = (name: string, onTake = () => {}) => ({
    owner: {
      receiver: undefined as object | undefined,
      onData: (data: Buffer, receiver: object | undefined) => {
        journal.push(`${name} takes ${data}${receiver === undefined ? "" : ` for ${receiver}`}`);
        onTake();
      },
    },
    flush: () => void journal.push(`${name} writes`),
  });
  return { clock, turn, journal, socket };
}

test("what a turn brings is taken at its end in the order in which it came, then all is written", async () => {
  const { clock, turn, journal, socket } = setUp();
  const [a, b] = [socket("a"), socket("b")];
  turn.write(b);
  turn.read(a, Buffer.from("1"));
  turn.read(b, Buffer.from("2"));
  turn.read(a, Buffer.from("3"));
  assert.deepEqual(journal, []);
  await clock.advance(0);
  assert.deepEqual(journal, ["a takes 1", "b takes 2", "a takes 3", "b writes"]);
});

test("what is written because of what was read leaves in the same turn", async () => {
  const { clock, turn, journal, socket } = setUp();
  const b = socket("b");
  turn.read(socket("a", () => turn.write(b)), Buffer.from("1"));
  await clock.advance(0);
  assert.deepEqual(journal, ["a takes 1", "b writes"]);
  assert.equal(clock.pendingTimers, 0);
});

test("the end of a connection comes behind the bytes before it, and nothing is taken twice", async () => {
  const { clock, turn, journal, socket } = setUp();
  turn.read(socket("a"), Buffer.from("1"));
  turn.takeNow();
  journal.push("the end");
  await clock.advance(0);
  assert.deepEqual(journal, ["a takes 1", "the end"]);
});

test("bytes are for the request that awaited an answer when they came, whoever does when they are taken", async () => {
  const { clock, turn, journal, socket } = setUp();
  const a = socket("a");
  turn.read(a, Buffer.from("1"));
  a.owner.receiver = ["first"];
  turn.read(a, Buffer.from("2"));
  a.owner.receiver = ["second"];
  await clock.advance(0);
  assert.deepEqual(journal, ["a takes 1", "a takes 2 for first"]);
});

const HANG_MS = 30_000;

test("a socket that was paused in the turn in which its answer ended reads the next answer", {
  timeout: HANG_MS,
}, async () => {
  const server = await startNetServer(async (side) => {
    if (side.earlierOnConnection === 0) return;
    side.head(204);
    await side.gone;
  });
  const clock = new SystemClock();
  const target = targetOf(`${server.url}/`);
  const answered = Promise.withResolvers<number>();
  const user = (onHead: (status: number) => void): ConnectionUser => ({
    bodiless: false,
    onHead,
    onBody: () => {},
    // What has come is more than its reader has taken.
    onBatch: () => true,
    onEnd: () => {},
    onBreak: ({ cause }) => answered.reject(cause),
  });
  const options = { clock, turn: new Turn(clock), connectTimeoutMs: 60_000, onIdleClose: () => {} };
  const connection = new Connection(target, options);
  const request = { method: "GET", url: server.url, headers: {} } as const;
  const first = user(() => {});
  connection.carry(request, target, first);
  while (server.requests() === 0) await clock.sleep(1);
  connection.onData(Buffer.from("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n1"), first);
  connection.onData(Buffer.from("2"), first);
  connection.carry(request, target, user(answered.resolve));
  assert.equal(await answered.promise, 204);
  connection.destroy();
  await server.stop();
});

test("a request that is written after bytes of nobody's have come does not get them, and was not seen", async () => {
  const server = await startNetServer(() => {});
  const clock = new SystemClock();
  const target = targetOf(`${server.url}/`);
  const heads: number[] = [];
  const broken = Promise.withResolvers<Break>();
  const user = (): ConnectionUser => ({
    bodiless: false,
    onHead: (status) => void heads.push(status),
    onBody: () => {},
    onBatch: () => false,
    onEnd: () => {},
    onBreak: broken.resolve,
  });
  const connection = new Connection(target, {
    clock,
    turn: new Turn(clock),
    connectTimeoutMs: 60_000,
    onIdleClose: () => {},
  });
  const answer = Buffer.from("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  const first = user();
  connection.carry({ method: "GET", url: server.url, headers: {} }, target, first);
  connection.onData(answer, first);
  connection.carry({ method: "GET", url: server.url, headers: {} }, target, user());
  connection.onData(answer, first);
  const { crossed, invalid } = await broken.promise;
  assert.deepEqual([heads, crossed, invalid], [[200], true, false]);
  await server.stop();
});
