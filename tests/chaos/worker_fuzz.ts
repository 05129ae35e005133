import { Buffer } from "node:buffer";
import { once } from "node:events";
import net from "node:net";
import { Random } from "../../base/random.ts";
import { SocketTransport } from "../../router/transport/sockets.ts";
import { mutatedResponse, type Verdict, verdictOf } from "../router/transport/mutated_response.ts";
import { type LoopPeer, withLoopSockets } from "./loop_socket.ts";

/** A case: what a worker answers, and whether it closes the connection behind it. */
interface MutatedAnswer {
  readonly bytes: Buffer;
  readonly cuts: readonly number[];
  readonly closes: boolean;
  /** It has bytes behind its end, so that nothing more may be asked for on its connection. */
  readonly goesTooFar: boolean;
}

/** Whole responses after which a connection could be used again, and what must not come behind one. */
const WHOLE = [
  "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
  "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
  "HTTP/1.1 204 No Content\r\n\r\n",
];
const TAILS = [
  "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nsmuggled",
  "x",
  "\r\nHTTP/1.1 200 OK\r\n",
  "0\r\n\r\n",
];

/** A worker that answers `/mutated` as the case says, and `/probe/N` well. */
class MutatedWorker {
  readonly #heads = new WeakMap<object, string>();
  readonly #turn: () => Promise<void>;
  /** What was written has arrived when its turn is over, as over no real socket. */
  readonly inTurns: boolean;
  answer: MutatedAnswer = { bytes: Buffer.alloc(0), cuts: [], closes: true, goesTooFar: false };
  /** The connections of the last mutated answer and of the last probe. */
  readonly used: { mutated?: object; probe?: object } = {};
  /** Called when all of a mutated answer has been written. */
  onWritten: () => void = () => {};

  /** `turn`: waits until what was written has arrived. */
  constructor(turn: () => Promise<void>, inTurns: boolean) {
    this.#turn = turn;
    this.inTurns = inTurns;
  }

  /** Bytes of a request, on the connection `socket`. */
  read(data: Uint8Array, peer: LoopPeer, socket: object): void {
    const head = (this.#heads.get(socket) ?? "") + Buffer.from(data).toString("latin1");
    this.#heads.set(socket, head);
    if (!head.endsWith("\r\n\r\n")) return;
    this.#heads.delete(socket);
    const path = head.split(" ", 2)[1] ?? "";
    this.used[path === "/mutated" ? "mutated" : "probe"] = socket;
    if (path === "/mutated") return void this.#writeMutated(peer);
    const body = path.slice("/probe/".length);
    const answer = `HTTP/1.1 200 OK\r\nx-probe: ${body}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    void this.#turn().then(() => peer.write(Buffer.from(answer)));
  }

  async #writeMutated(peer: LoopPeer): Promise<void> {
    const { bytes, cuts, closes } = this.answer;
    let from = 0;
    await this.#turn();
    for (const to of [...cuts, bytes.length]) {
      if (to === from) continue;
      peer.write(bytes.subarray(from, to));
      from = to;
      await this.#turn();
    }
    if (closes) peer.end();
    this.onWritten();
  }
}

/** Options of `fuzzWorkers`. */
export interface WorkerFuzz {
  readonly responses: number;
  readonly seed: string;
  readonly onCase?: ((count: number) => void) | undefined;
}

/**
 * Lets a worker answer with so many mutated responses; after each, the next request of the same transport must get its
 * own answer and nothing else. Gives what went wrong. The transport's sockets end in this process, so that a million
 * fit into minutes; on Bun, whose own sockets they are, they are the system's.
 */
export async function fuzzWorkers(options: WorkerFuzz): Promise<readonly string[]> {
  if ("Bun" in globalThis) return await fuzzWorkersOverSockets(options);
  const worker = new MutatedWorker(() => Promise.resolve(), true);
  return await withLoopSockets(
    (bytes, peer, socket) => worker.read(bytes, peer, socket),
    () => playAnswers(options, worker, "http://loop.invalid"),
  );
}

/** The same over sockets of the system. */
export async function fuzzWorkersOverSockets(options: WorkerFuzz): Promise<readonly string[]> {
  const worker = new MutatedWorker(nextTurn, false);
  const server = net.createServer((socket) => {
    socket.setNoDelay(true);
    socket.on("error", () => {});
    const peer = { write: (bytes: Uint8Array) => void socket.write(bytes), end: () => void socket.end() };
    socket.on("data", (data) => worker.read(Buffer.from(data), peer, socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  try {
    return await playAnswers(options, worker, `http://127.0.0.1:${address.port}`);
  } finally {
    server.close();
  }
}

async function playAnswers(
  { responses, seed, onCase }: WorkerFuzz,
  worker: MutatedWorker,
  url: string,
): Promise<readonly string[]> {
  const random = new Random(seed);
  const transport = new SocketTransport();
  const wrong: string[] = [];
  for (let count = 0; count < responses && wrong.length < 10; count++) {
    const found = await playAnswer(transport, worker, url, random);
    if (found !== undefined) wrong.push(found);
    onCase?.(count + 1);
  }
  await transport.close();
  return wrong;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function playAnswer(
  transport: SocketTransport,
  worker: MutatedWorker,
  url: string,
  random: Random,
): Promise<string | undefined> {
  const answer = random.int(6) === 0 ? tooLong(random, worker.inTurns) : mutatedAnswer(random);
  const { bytes, cuts } = answer;
  const expected = verdictOf(bytes, []);
  const named = JSON.stringify({ answer: bytes.toString("latin1"), cuts, closes: answer.closes });
  worker.answer = answer;
  const found = await askMutated(transport, worker, url, expected);
  const probe = String(random.int(1e9));
  const told = await askProbe(transport, url, probe);
  if (answer.goesTooFar && worker.used.mutated === worker.used.probe) {
    return `${named}: its connection was used again`;
  }
  if (told !== probe) return `${named}: the next request got ${JSON.stringify(told)}, not ${probe}`;
  return found === undefined ? undefined : `${named}: ${found}`;
}

function mutatedAnswer(random: Random): MutatedAnswer {
  const bytes = mutatedResponse(random);
  const { state } = verdictOf(bytes, []);
  const cuttable = state === "open" || state === "ended";
  const cuts = cuttable && random.int(2) === 0 ? [random.int(bytes.length + 1)] : [];
  return { bytes, cuts, closes: random.int(2) === 0, goesTooFar: false };
}

/** A whole response and more, in one read or in the next one, which has come before the next request. */
function tooLong(random: Random, inTurns: boolean): MutatedAnswer {
  const whole = random.pick(WHOLE);
  const cuts = inTurns && random.int(2) === 0 ? [whole.length] : [];
  return { bytes: Buffer.from(whole + random.pick(TAILS)), cuts, closes: false, goesTooFar: true };
}

/** Sends the request whose answer is mutated; gives what is wrong with what came of it. */
async function askMutated(
  transport: SocketTransport,
  worker: MutatedWorker,
  url: string,
  expected: Verdict,
): Promise<string | undefined> {
  const gone = new AbortController();
  const { closes } = worker.answer;
  const written = new Promise<void>((resolve) => worker.onWritten = resolve);
  let body = "";
  let head: unknown;
  let ended = false;
  const asked = (async () => {
    const response = await transport.send({ method: "GET", url: `${url}/mutated`, headers: {} }, gone.signal);
    head = [response.status, response.headers];
    for await (const chunk of response.body) body += Buffer.from(chunk).toString("latin1");
    ended = true;
  })().catch(() => {});
  // An answer that goes on for ever is nobody's fault but the worker's: only then may it be waited for.
  const goesOn = !closes && !worker.answer.goesTooFar && expected.state !== "ended" &&
    expected.state !== "invalid";
  if (worker.answer.goesTooFar) await written;
  if (goesOn) {
    await written;
    await Promise.race([asked, nextTurn().then(nextTurn).then(nextTurn)]);
    gone.abort(new Error("enough"));
  }
  await asked;
  const wholeBody = expected.state === "ended" || expected.state === "ended_for_good";
  if (ended && !wholeBody) return `it counts as whole, and is ${expected.state}`;
  if (ended && JSON.stringify([head]) !== JSON.stringify(expected.heads)) {
    return `its head is ${JSON.stringify(head)}`;
  }
  if (ended ? body !== expected.body : !expected.body.startsWith(body)) {
    return `its body is ${JSON.stringify(body)}`;
  }
  if (!ended && wholeBody && !goesOn) return `it counts as broken, and is ${expected.state}`;
  return undefined;
}

/** The next request's answer: its body, or what is wrong with it. */
async function askProbe(transport: SocketTransport, url: string, probe: string): Promise<string> {
  const send = () =>
    transport.send(
      { method: "GET", url: `${url}/probe/${probe}`, headers: {} },
      new AbortController().signal,
    );
  // An idle close may cross it, as it may any request: that one is sent again, as the relay does.
  const response = await send().catch(send);
  let body = "";
  for await (const chunk of response.body) body += Buffer.from(chunk).toString("latin1");
  return response.headers["x-probe"] === probe && response.status === 200
    ? body
    : `${response.status} ${body}`;
}
