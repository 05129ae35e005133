import type { Transport } from "../../../base/transport.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import { readAuthorities, readTlsPair } from "../../../router/http/server/tls_files.ts";
import { ChangingTransport } from "../../../router/transport/changing.ts";
import { systemTransport } from "../../../router/transport/system.ts";

/** The way to workers with the certificates of a configuration; without any it is the program's own. */
export class WorkerNetwork {
  readonly transport: ChangingTransport;
  readonly #standard: Transport;
  /** With certificates; undefined without any. */
  #own: Transport | undefined;
  /** What the files of `#own` held. */
  #text: string;

  /** Throws `invalid_tls_file` (500). */
  constructor(config: Config, standard: Transport) {
    const tls = readWorkerTls(config);
    this.#standard = standard;
    this.#own = tls && systemTransport(tls);
    this.#text = JSON.stringify(tls);
    this.transport = new ChangingTransport(this.#own ?? standard);
  }

  /** Reads the files of a configuration, which can then be used for new connections. Throws `invalid_tls_file` (500). */
  prepare(config: Config): { commit(): void } {
    const tls = readWorkerTls(config);
    const text = JSON.stringify(tls);
    return {
      commit: () => {
        if (text === this.#text) return;
        const before = this.#own;
        this.#own = tls && systemTransport(tls);
        this.#text = text;
        this.transport.use(this.#own ?? this.#standard);
        // Its requests in flight end first.
        void before?.close();
      },
    };
  }

  async close(): Promise<void> {
    await this.#own?.close();
  }
}

function readWorkerTls({ server: { worker_tls: files } }: Config) {
  if (files === undefined) return undefined;
  const { ca, cert, key } = files;
  const own = cert === undefined || key === undefined ? {} : readTlsPair({ cert, key });
  return { ...own, moreCa: ca.map(readAuthorities) };
}
