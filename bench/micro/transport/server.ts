import net from "node:net";
import process from "node:process";
import { SystemClock } from "../../../base/clock.ts";

/** A worker at its cheapest, in a process of its own: prints its port. `/small` is a short answer, `/paced` and `/bulk` are streams. */

const CHUNKS = 200;
const GAP_MS = 5;
const EVENT =
  `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}\n\n`;
const chunk = `${EVENT.length.toString(16)}\r\n${EVENT}\r\n`;
const answer = `{"id":"1","choices":[{"message":{"role":"assistant","content":"${"x".repeat(150)}"}}]}`;
const small =
  `HTTP/1.1 200 OK\r\ndate: Sun, 22 Nov 2026 10:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: application/json\r\n` +
  `content-length: ${answer.length}\r\n\r\n${answer}`;
const HEAD =
  "HTTP/1.1 200 OK\r\ndate: Sun, 22 Nov 2026 10:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: text/event-stream\r\n" +
  "transfer-encoding: chunked\r\n\r\n";
const paced = new Map<net.Socket, number>();

function step(): void {
  for (const [socket, left] of paced) {
    socket.write(left === 1 ? `${chunk}0\r\n\r\n` : chunk);
    if (left === 1) paced.delete(socket);
    else paced.set(socket, left - 1);
  }
}

function bulk(socket: net.Socket, left: number): void {
  for (let n = left; n > 0; n--) {
    if (!socket.write(n === 1 ? `${chunk}0\r\n\r\n` : chunk) && n > 1) {
      socket.once("drain", () => bulk(socket, n - 1));
      return;
    }
  }
}

const server = net.createServer({ noDelay: true }, (socket) => {
  let waiting = "";
  socket.on("error", () => socket.destroy());
  socket.on("close", () => paced.delete(socket));
  socket.on("data", (data) => {
    waiting += data.toString("latin1");
    const end = waiting.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = Number(/content-length: (\d+)/i.exec(waiting)?.[1] ?? 0);
    if (waiting.length < end + 4 + length) return;
    const path = waiting.slice(5, waiting.indexOf(" ", 5));
    waiting = "";
    if (path === "/small") return void socket.write(small);
    socket.write(HEAD);
    if (path === "/paced") paced.set(socket, CHUNKS);
    else bulk(socket, CHUNKS);
  });
});
server.listen(0, "127.0.0.1", 4096, () => {
  const address = server.address();
  process.stdout.write(`${typeof address === "object" && address !== null ? address.port : 0}\n`);
});
process.stdin.on("end", () => process.exit(0));
process.stdin.resume();

const clock = new SystemClock();
while (true) {
  await clock.sleep(GAP_MS);
  step();
}
