import type { Clock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { listenError } from "../../../base/listen_error.ts";
import { metricsPage } from "./metrics_page.ts";
import type { Fetches } from "./fetches.ts";
import { type HttpServer, serveHttp } from "./serve_http.ts";
import { serveTls, type TlsServer } from "./serve_tls.ts";
import { readTlsPair, type TlsFiles } from "./tls_files.ts";

/** A place to listen. */
export interface Address {
  readonly host: string;
  readonly port: number;
  /** Other threads listen there, too. */
  readonly sharesPort?: boolean | undefined;
}

/** Options of `Listeners`. */
export interface ListenersOptions {
  readonly app: Fetches;
  /** Absent: plain HTTP. */
  readonly tls?: TlsFiles | undefined;
  readonly clock: Clock;
  readonly metricsText: () => string | Promise<string>;
}

/** The servers of one router. */
export class Listeners {
  readonly #options: ListenersOptions;
  readonly #servers: HttpServer[] = [];
  readonly #tlsServers: TlsServer[] = [];
  #tls: TlsFiles | undefined;

  constructor(options: ListenersOptions) {
    this.#options = options;
    this.#tls = options.tls;
  }

  /**
   * Looks whether new connections can get the certificate of these files from now on; whether there is TLS does not
   * change. Throws `invalid_tls_file` (500).
   */
  prepareTls(files: TlsFiles | undefined): { commit(): void } {
    if (files === undefined || this.#tls === undefined) return { commit: () => {} };
    readTlsPair(files);
    return {
      commit: () => {
        this.#tls = files;
        for (const server of this.#tlsServers) server.useFiles(files);
      },
    };
  }

  /** Serves the app. Throws `CanopyError` (500) when it cannot listen, or has no certificate that can be used. */
  listen(address: Address): { url: string } {
    const { app, clock } = this.#options;
    const files = this.#tls;
    return this.#open(address, () => {
      if (files === undefined) return serveHttp(app, address);
      const server = serveTls(app, { ...address, files, clock });
      this.#tlsServers.push(server);
      return server;
    });
  }

  /** Serves nothing but the metrics. Throws `CanopyError` (500) when it cannot listen. */
  listenForMetrics(address: Address): { url: string } {
    return this.#open(address, () => serveHttp(metricsPage(this.#options.metricsText), address));
  }

  /** Refuses new connections everywhere; resolves when the requests in flight have been answered. */
  async shutdown(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.shutdown()));
  }

  #open({ host, port }: Address, serve: () => HttpServer): { url: string } {
    try {
      const server = serve();
      this.#servers.push(server);
      return { url: server.url };
    } catch (cause) {
      throw CanopyError.is(cause) ? cause : listenError(host, port, cause);
    }
  }
}
