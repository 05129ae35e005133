// Files that are imported as texts.
declare module "*.py" {
  const text: string;
  export default text;
}
