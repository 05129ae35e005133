import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { VirtualClock } from "../../../base/clock.ts";
import { BunSocket, type RawSocket } from "../../../router/transport/bun_socket.ts";
import { targetOf } from "../../../router/transport/target.ts";
import { Turn } from "../../../router/transport/turn.ts";

/** A socket whose kernel takes so many bytes at each write, and what it has taken. */
function socketThatTakes(counts: readonly number[]) {
  const clock = new VirtualClock();
  const turn = new Turn(clock);
  const taken: Buffer[] = [];
  let writes = 0;
  const owner = {
    receiver: undefined,
    onConnect() {},
    onData() {},
    onEnd() {},
    onError() {},
    onClose() {},
  };
  const sockets = { connect: () => new Promise<RawSocket>(() => {}) };
  const socket = BunSocket.connect(targetOf("http://127.0.0.1:1"), owner, { clock, turn, sockets });
  socket.opened({
    data: socket,
    write(bytes, from = 0, length = bytes.length - from) {
      const count = Math.min(length, counts[writes++] ?? Infinity);
      // The memory is used again for the next write.
      taken.push(Buffer.from(bytes.slice(from, from + count)));
      return count;
    },
    pause() {},
    resume() {},
    terminate() {},
    close() {},
    shutdown() {},
    setKeepAlive() {},
  });
  return { clock, socket, taken };
}

const piece = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 60 }),
  fc.uint8Array({ maxLength: 60 }),
  // Longer than what leaves together.
  fc.integer({ min: 60_000, max: 300_000 }).map((length) => "é".repeat(length / 2)),
  fc.integer({ min: 60_000, max: 600_000 }).map((length) => Buffer.alloc(length, "xyz")),
);

test("however little the kernel takes at a time, all pieces leave whole and in their order", async () => {
  const counts = fc.array(fc.oneof(fc.nat(40), fc.nat(100_000)), { maxLength: 12 });
  const turns = fc.array(fc.array(piece, { maxLength: 4 }), { minLength: 1, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(counts, turns, async (counts, turns) => {
      const { clock, socket, taken } = socketThatTakes(counts);
      for (const pieces of turns) {
        socket.write(pieces);
        await clock.advance(0);
      }
      // The kernel has room again.
      for (let round = 0; socket.unsent && round < 100; round++) {
        socket.flush();
        await clock.advance(0);
      }
      assert.equal(socket.unsent, false);
      const sent = turns.flat().map((piece) => Buffer.from(piece));
      assert.equal(Buffer.compare(Buffer.concat(taken), Buffer.concat(sent)), 0);
    }),
    { numRuns: 60 },
  );
});

test("a short request leaves in one write, its head and its body together", async () => {
  const { clock, socket, taken } = socketThatTakes([]);
  socket.write(["POST / HTTP/1.1\r\n\r\n", Buffer.from("{}")]);
  await clock.advance(0);
  assert.deepEqual(taken.map(String), ["POST / HTTP/1.1\r\n\r\n{}"]);
});
