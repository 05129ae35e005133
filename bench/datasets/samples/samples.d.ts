// Files that are imported as texts.
declare module "*.jsonl" {
  const text: string;
  export default text;
}

declare module "*.csv" {
  const text: string;
  export default text;
}
