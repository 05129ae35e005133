import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export const COMMIT = "0123456789abcdef0123456789abcdef01234567";

/** A file of the fake Hub. */
export interface FakeFile {
  readonly content: Uint8Array;
  /** Large files are kept by another server. */
  readonly large: boolean;
}

export interface FakeHubOptions {
  readonly files: Readonly<Record<string, FakeFile>>;
  /** What the models' list of files is answered with instead. */
  readonly refusal?: { readonly status: number; readonly code?: string };
  /** Bytes after which the connection of a download is cut, for the first so many downloads of large files. */
  readonly cutAfter?: number;
  readonly cuts?: number;
  /** What the keeper of large files sends instead of them. */
  readonly spoilt?: Uint8Array;
  /** The keeper of large files knows no ranges. */
  readonly noRanges?: boolean;
}

/** One request, as the test wants to see it. */
export interface SeenRequest {
  readonly server: "hub" | "storage";
  readonly line: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
}

/** The Hub and the storage of its large files, on two ports of this machine. */
export class FakeHub {
  readonly requests: SeenRequest[] = [];
  readonly #options: FakeHubOptions;
  readonly #hub: Server;
  readonly #storage: Server;
  #cuts = 0;

  private constructor(options: FakeHubOptions) {
    this.#options = options;
    this.#hub = createServer((request, response) => this.#answer(request, response));
    this.#storage = createServer((request, response) => this.#store(request, response));
  }

  static async start(options: FakeHubOptions): Promise<FakeHub> {
    const hub = new FakeHub(options);
    for (const server of [hub.#hub, hub.#storage]) {
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    }
    return hub;
  }

  get endpoint(): string {
    return addressOf(this.#hub);
  }

  async close(): Promise<void> {
    for (const server of [this.#hub, this.#storage]) {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    }
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.#note("hub", request);
    const path = decodeURIComponent(request.url ?? "");
    if (/^\/api\/(?:models|datasets)\//.test(path)) return this.#list(response);
    // As the Hub does for small files: an address of its own first.
    const [, direct, name] = /^(\/direct)?(?:\/datasets)?\/acme\/model\/resolve\/[^/]+\/(.+)$/.exec(path) ??
      [];
    const file = name === undefined ? undefined : this.#options.files[name];
    if (file === undefined) {
      return void response.writeHead(404, { "x-error-code": "EntryNotFound" }).end();
    }
    if (file.large) {
      const etag = `"${createHash("sha256").update(file.content).digest("hex")}"`;
      return void response.writeHead(302, {
        location: `${addressOf(this.#storage)}/${name}`,
        "x-repo-commit": COMMIT,
        "x-linked-etag": etag,
        "x-linked-size": String(file.content.length),
      }).end();
    }
    if (direct === undefined) {
      return void response.writeHead(307, { location: `/direct${request.url}`, "x-repo-commit": COMMIT })
        .end();
    }
    const etag = createHash("sha1").update(`blob ${file.content.length}\0`).update(file.content).digest(
      "hex",
    );
    this.#send(request, response, file.content, { "x-repo-commit": COMMIT, etag: `W/"${etag}"` });
  }

  #list(response: ServerResponse): void {
    const { refusal, files } = this.#options;
    if (refusal !== undefined) {
      return void response.writeHead(
        refusal.status,
        refusal.code === undefined ? {} : { "x-error-code": refusal.code },
      ).end();
    }
    const siblings = Object.keys(files).map((rfilename) => ({ rfilename }));
    response.writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ id: "acme/model", sha: COMMIT, siblings }));
  }

  #store(request: IncomingMessage, response: ServerResponse): void {
    this.#note("storage", request);
    const { files, cutAfter, cuts = Infinity, spoilt } = this.#options;
    const file = files[decodeURIComponent(request.url ?? "").slice(1)];
    if (file === undefined) return void response.writeHead(404).end();
    const content = spoilt ?? file.content;
    if (cutAfter === undefined || this.#cuts >= cuts) return this.#send(request, response, content, {});
    this.#cuts++;
    const start = this.#startOf(request);
    response.writeHead(start > 0 ? 206 : 200, {
      "content-length": content.length - start,
      ...(start > 0 ? { "content-range": `bytes ${start}-${content.length - 1}/${content.length}` } : {}),
    });
    response.write(content.subarray(start, start + cutAfter));
    // Clients lose what they have not read when a connection is reset.
    setTimeout(() => response.socket?.destroy(), cutAfter === 0 ? 0 : 25);
  }

  #send(
    request: IncomingMessage,
    response: ServerResponse,
    content: Uint8Array,
    headers: Record<string, string>,
  ): void {
    const start = this.#startOf(request);
    const range = { "content-range": `bytes ${start}-${content.length - 1}/${content.length}` };
    response.writeHead(start > 0 ? 206 : 200, {
      ...headers,
      ...(start > 0 ? range : {}),
      "content-length": content.length - start,
    });
    if (request.method === "HEAD") response.end();
    else response.end(content.subarray(start));
  }

  #startOf(request: IncomingMessage): number {
    if (this.#options.noRanges === true) return 0;
    return Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
  }

  #note(server: "hub" | "storage", request: IncomingMessage): void {
    this.requests.push({
      server,
      line: `${request.method} ${request.url}`,
      range: request.headers.range,
      authorization: request.headers.authorization,
    });
  }
}

function addressOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
