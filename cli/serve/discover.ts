import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../cfgs/schema/config.ts";
import { UsageError } from "../kit/args.ts";
import type { OptionValues } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import type { Beside } from "../kit/router/serve_loaded.ts";
import { type DnsName, followDns, systemResolver } from "../../router/discovery/dns.ts";
import type { PodSelectors } from "../kit/router_flags/config_of_flags.ts";
import { FleetMembers } from "../../router/discovery/fleet_members.ts";
import { followPods } from "../../router/discovery/kubernetes.ts";
import { type KubernetesAccess, KubernetesPods } from "../../router/discovery/kubernetes_api.ts";
import { DiscoveredWorkers } from "../../router/discovery/membership.ts";
import { systemTransport } from "../../router/transport/system.ts";

const DNS_INTERVAL_SECONDS = 10;
const SELECTOR = "app.kubernetes.io/part-of=canopy";
/** Folder in which a pod finds the token and the certificate of its service account. */
const ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";
const TARGET = { type: "list", value: "MODEL=NAME:PORT" } as const;

/** Options of `canopy serve` for workers that come and go. */
export const discoverOptions = {
  discover: {
    type: "list",
    value: "SOURCE",
    choices: ["kubernetes", "dns"],
    help: "Find workers while serving, besides those of the configuration",
  },
  selector: {
    type: "list",
    value: "LABEL=VALUE",
    help: `Kubernetes: labels of the pods; ${SELECTOR} by default`,
  },
  "discover-namespace": {
    type: "text",
    value: "NAMESPACE",
    help: "Kubernetes: where they are; this pod's own by default",
  },
  "discover-port": {
    type: "number",
    value: "PORT",
    min: 1,
    max: 65535,
    help: "Kubernetes: port of the engines; each pod's first container port by default",
  },
  "kubernetes-api": {
    type: "text",
    value: "URL",
    help: "Kubernetes: the API server, such as that of kubectl proxy; from within a pod by default",
  },
  dns: {
    ...TARGET,
    help: "DNS: all addresses of NAME serve MODEL; without PORT the name of a service (SRV)",
  },
  "dns-prefill": { ...TARGET, help: "DNS: the same for prefill servers" },
  "dns-decode": { ...TARGET, help: "DNS: the same for decode servers" },
  "dns-bootstrap-port": {
    type: "number",
    value: "PORT",
    min: 1,
    max: 65535,
    help: "DNS: bootstrap port of prefill servers",
  },
  "dns-interval": {
    type: "number",
    value: "SECONDS",
    min: 1,
    help: `DNS: time between two looks; ${DNS_INTERVAL_SECONDS} by default`,
  },
} as const;

type Values = OptionValues<typeof discoverOptions>;

const OF_KUBERNETES = ["selector", "discover-namespace", "discover-port", "kubernetes-api"] as const;

/** Discovery beside a router; undefined when none is asked for. Throws `UsageError` for options that do not fit. */
export function discoveryOf(values: Values, config: Config, io: Io): Beside | undefined {
  const names = dnsNames(values, config);
  const wantsDns = values.discover.includes("dns") || names.length > 0;
  if (wantsDns && names.length === 0) {
    throw new UsageError("Option --discover dns needs names: add --dns MODEL=NAME:PORT");
  }
  refuseIdle(values, wantsDns);
  const kubernetes = values.discover.includes("kubernetes") ? accessOf(values, io) : undefined;
  if (kubernetes === undefined && !wantsDns) return undefined;
  return (router, _, signal) => {
    const models = router.services.models;
    if (wantsDns) {
      const workers = new DiscoveredWorkers(models);
      const intervalMs = (values["dns-interval"] ?? DNS_INTERVAL_SECONDS) * 1000;
      const onMembers = (members: Parameters<DiscoveredWorkers["set"]>[0]) => workers.set(members);
      void followDns({ names, resolver: systemResolver, clock: io.clock, intervalMs, onMembers }, signal);
    }
    if (kubernetes === undefined) return;
    const workers = new DiscoveredWorkers(models);
    const transport = kubernetes.ca === undefined ? io.transport : systemTransport({ ca: kubernetes.ca });
    const selector = values.selector.length === 0 ? SELECTOR : values.selector.join(",");
    void followPods({
      pods: new KubernetesPods({ access: kubernetes, transport, selector, clock: io.clock }),
      rules: {
        get models() {
          return [...models.keys()];
        },
        port: values["discover-port"],
      },
      clock: io.clock,
      onMembers: (members) => workers.set(members),
    }, signal);
  };
}

/** Options without effect are mistakes: a way to find workers was forgotten. */
function refuseIdle(values: Values, wantsDns: boolean): void {
  const idle = [
    ...(values.discover.includes("kubernetes") ? [] : OF_KUBERNETES).map((name) => ({
      name,
      without: "--discover kubernetes",
    })),
    ...(values["dns-prefill"].length > 0
      ? []
      : [{ name: "dns-bootstrap-port", without: "--dns-prefill" } as const]),
    ...(wantsDns ? [] : [{ name: "dns-interval", without: "names: add --dns MODEL=NAME:PORT" } as const]),
  ].find(({ name }) => values[name] !== undefined && String(values[name]) !== "");
  if (idle !== undefined) throw new UsageError(`Option --${idle.name} has no effect without ${idle.without}`);
}

/** Discovery with the selectors of SGLang's routers: the servers say themselves which model they have. */
export function podDiscovery(selectors: PodSelectors, given: string | undefined, io: Io): Beside {
  const access = { ...apiServer(given, "--service-discovery", io), namespace: selectors.namespace };
  const transport = access.ca === undefined ? io.transport : systemTransport({ ca: access.ca });
  return ({ services: { fleet, models } }, _, signal) => {
    if (fleet === undefined) return;
    for (const role of ["whole", "prefill", "decode"] as const) {
      const labels = selectors[role];
      if (labels.length === 0) continue;
      const members = new FleetMembers(fleet, models);
      void followPods({
        pods: new KubernetesPods({ access, transport, selector: labels.join(","), clock: io.clock }),
        rules: { models: undefined, role, port: selectors.port },
        clock: io.clock,
        onMembers: (all) => members.set(all),
      }, signal);
    }
  };
}

function accessOf(values: Values, io: Io): KubernetesAccess & { readonly ca: string | undefined } {
  const namespace = values["discover-namespace"] ?? readAccount("namespace") ?? "default";
  return { ...apiServer(values["kubernetes-api"], "--discover kubernetes", io), namespace };
}

/** A file of this pod's service account; undefined outside of a cluster. */
function readAccount(name: string): string | undefined {
  try {
    return readFileSync(join(ACCOUNT_FOLDER, name), "utf8").trim();
  } catch {
    return undefined;
  }
}

/** The API server that was named, or the one that this pod belongs to. */
function apiServer(
  given: string | undefined,
  option: string,
  io: Io,
): Omit<KubernetesAccess, "namespace"> & { readonly ca: string | undefined } {
  if (given !== undefined) {
    if (!URL.canParse(given)) {
      throw new UsageError(`Option --kubernetes-api must be a URL: current value is "${given}"`);
    }
    return { url: given.replace(/\/+$/, ""), token: () => io.env.KUBERNETES_TOKEN, ca: undefined };
  }
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = io.env;
  if (host === undefined || port === undefined) {
    throw new UsageError(
      `Option ${option} works in a pod: elsewhere run kubectl proxy and add --kubernetes-api http://127.0.0.1:8001`,
    );
  }
  return {
    url: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    token: () => readAccount("token"),
    ca: readAccount("ca.crt"),
  };
}

function dnsNames(values: Values, config: Config): DnsName[] {
  const bootstrapPort = values["dns-bootstrap-port"];
  const parse = (option: string, role: DnsName["role"]) => (text: string): DnsName => {
    const [, model = "", name = "", port] = /^(.+?)=(\[[^\]]+\]|[^:=]+)(?::(\d{1,5}))?$/.exec(text) ?? [];
    if (name === "" || (port === undefined && !name.startsWith("_"))) {
      throw new UsageError(`Option --${option} must look like MODEL=NAME:PORT: current value is "${text}"`);
    }
    if (!Object.hasOwn(config.models, model)) {
      const known = Object.keys(config.models).join(", ");
      throw new UsageError(`Option --${option} names model "${model}", and there are ${known}`);
    }
    return {
      model,
      name: name.replace(/^\[|\]$/g, ""),
      port: port === undefined ? undefined : Number(port),
      role,
      bootstrapPort: role === "prefill" ? bootstrapPort : undefined,
    };
  };
  return [
    ...values.dns.map(parse("dns", undefined)),
    ...values["dns-prefill"].map(parse("dns-prefill", "prefill")),
    ...values["dns-decode"].map(parse("dns-decode", "decode")),
  ];
}
