import type { Config } from "../../cfgs/schema/config.ts";
import { formatPath } from "../../cfgs/schema/config_path.ts";

/** Settings of a router that name files and folders of its host, which a container does not have by itself. */
export function hostFileSettings({ server, scorer, models }: Config): string[] {
  const { tls, worker_tls: workerTls, records, reports, log_dir } = server;
  const settings: readonly (readonly [readonly (string | number)[], string | undefined])[] = [
    [["server", "tls", "cert"], tls?.cert],
    [["server", "tls", "key"], tls?.key],
    ...(workerTls?.ca ?? []).map((file, index) => [["server", "worker_tls", "ca", index], file] as const),
    [["server", "worker_tls", "cert"], workerTls?.cert],
    [["server", "worker_tls", "key"], workerTls?.key],
    [["server", "records", "file"], records.file],
    [["server", "reports"], reports],
    [["server", "log_dir"], log_dir],
    [["scorer", "whitening"], scorer?.whitening],
    [["scorer", "model"], folderIn(scorer?.model)],
    ...Object.entries(models).flatMap(([name, { engine, model, tokenizer }]) => [
      [["models", name, "tokenizer"], folderIn(tokenizer)] as const,
      [["models", name, "model"], engine === "onnx" ? folderIn(model) : undefined] as const,
    ]),
  ];
  return settings.flatMap(([path, value]) => value === undefined ? [] : [formatPath(path)]);
}

/** A folder, where it is no id of the Hub. */
function folderIn(value: unknown): string | undefined {
  return typeof value === "string" && /^[./~]/.test(value) ? value : undefined;
}
