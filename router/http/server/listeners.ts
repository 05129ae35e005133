import type { Clock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { listenError } from "../../../base/listen_error.ts";
import { metricsPage } from "./metrics_page.ts";
import { type Fetches, type HttpServer, serveHttp } from "./serve_http.ts";
import { serveTls } from "./serve_tls.ts";
import type { TlsFiles } from "./tls_files.ts";

/** A place to listen. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Options of `Listeners`. */
export interface ListenersOptions {
  readonly app: Fetches;
  /** Absent: plain HTTP. */
  readonly tls?: TlsFiles | undefined;
  readonly clock: Clock;
  readonly metricsText: () => string;
}

/** The servers of one router. */
export class Listeners {
  readonly #options: ListenersOptions;
  readonly #servers: HttpServer[] = [];

  constructor(options: ListenersOptions) {
    this.#options = options;
  }

  /** Serves the app. Throws `CanopyError` (500) when it cannot listen, or has no certificate that can be used. */
  listen(address: Address): { url: string } {
    const { app, tls: files, clock } = this.#options;
    return this.#open(
      address,
      () => files === undefined ? serveHttp(app, address) : serveTls(app, { ...address, files, clock }),
    );
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
